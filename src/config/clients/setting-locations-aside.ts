/** Finds where settings stand, in a thread, so that requests are served meanwhile; the thread ends with its answer or at its deadline. */
import type { Environment } from '../environment.ts'
import type { AskedPlace, PlacesFound } from './setting-locations.ts'
import { askThread } from './thread.ts'

export interface LocationsRequest {
  /** Path of the configuration. */
  readonly file: string
  readonly env: Environment
  /** Revision in force. */
  readonly revision: string
  readonly asked: readonly AskedPlace[]
}

/** otherFiles: the files are no longer those in force. */
export type LocationsAnswer = PlacesFound | 'otherFiles'

/** Finds the settings of a running gateway. Rejects where that takes longer than the deadline. */
export type ReadSettingLocations = (
  request: Pick<LocationsRequest, 'revision' | 'asked'>,
  deadlineMs: number,
) => Promise<LocationsAnswer>

export const readSettingLocationsAside =
  (file: string, env: Environment): ReadSettingLocations =>
  (request, deadlineMs) => {
    const whole: LocationsRequest = { ...request, file, env: { ...env } }
    return askThread('setting-locations-thread', whole, deadlineMs)
  }
