/** Finds where settings stand, in a thread, so that requests are served meanwhile; the thread ends with its answer or at its deadline. */
import type { Environment } from '../environment.ts'
import type { AskedPlace, PlacesFound } from './setting-places.ts'
import { askThread } from './thread.ts'

export interface PlacesRequest {
  /** Path of the configuration. */
  readonly file: string
  readonly env: Environment
  /** Revision in force. */
  readonly revision: string
  readonly asked: readonly AskedPlace[]
}

/** otherFiles: the files are no longer those in force. */
export type PlacesAnswer = PlacesFound | 'otherFiles'

/** Finds the settings of a running gateway. Rejects where that takes longer than the deadline. */
export type ReadPlaces = (
  request: Pick<PlacesRequest, 'revision' | 'asked'>,
  deadlineMs: number,
) => Promise<PlacesAnswer>

export const readPlacesAside =
  (file: string, env: Environment): ReadPlaces =>
  (request, deadlineMs) => {
    const whole: PlacesRequest = { ...request, file, env: { ...env } }
    return askThread('places-thread', whole, deadlineMs)
  }
