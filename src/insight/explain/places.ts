/** Where the settings stand that an explanation names: all are asked for at once, so that whoever reads the files reads them once. */
import type { Explanation } from '../api/explain.ts'
import type { AskedPlace, PlacesFound } from '../../config/clients/setting-locations.ts'
import type { SettingPlaces } from './question.ts'

/** undefined: nobody knows. */
export type FindPlaces = (asked: readonly AskedPlace[]) => Promise<PlacesFound | undefined>

/** Makes it twice: first to hear which places it names. */
export async function withPlaces(
  explain: (places: SettingPlaces) => Explanation,
  find: FindPlaces | undefined,
): Promise<Explanation> {
  const asked = new Map<string, AskedPlace>()
  const without = explain(
    placesBy((one) => {
      asked.set(JSON.stringify(one), one)
      return null
    }),
  )
  const found = await find?.([...asked.values()])
  if (found === undefined) return without
  const places = new Map([...asked.keys()].map((key, at) => [key, found[at] ?? null]))
  return explain(placesBy((one) => places.get(JSON.stringify(one)) ?? null))
}

const placesBy = (find: (asked: AskedPlace) => string | null): SettingPlaces => ({
  of: (...path) => find({ path }),
  ofKey: (clientId, keyId) => find({ clientId, keyId }),
  ofLimits: (clientId) => find({ clientId }),
})
