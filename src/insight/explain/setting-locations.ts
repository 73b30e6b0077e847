/** Finds the locations of all settings that an explanation names, in one reading of the files. */
import type { Explanation } from '../api/explain.ts'
import type { AskedPlace, PlacesFound } from '../../config/clients/setting-locations.ts'
import type { SettingLocations } from './question.ts'

/** undefined: the locations are not known. */
export type FindLocations = (asked: readonly AskedPlace[]) => Promise<PlacesFound | undefined>

/** Makes the explanation twice: first to collect the settings it names. */
export async function withLocations(
  explain: (locations: SettingLocations) => Explanation,
  find: FindLocations | undefined,
): Promise<Explanation> {
  const asked = new Map<string, AskedPlace>()
  const without = explain(
    locationsBy((one) => {
      asked.set(JSON.stringify(one), one)
      return null
    }),
  )
  const found = await find?.([...asked.values()])
  if (found === undefined) return without
  const locations = new Map([...asked.keys()].map((key, at) => [key, found[at] ?? null]))
  return explain(locationsBy((one) => locations.get(JSON.stringify(one)) ?? null))
}

const locationsBy = (find: (asked: AskedPlace) => string | null): SettingLocations => ({
  of: (...path) => find({ path }),
  ofKey: (clientId, keyId) => find({ clientId, keyId }),
  ofLimits: (clientId) => find({ clientId }),
})
