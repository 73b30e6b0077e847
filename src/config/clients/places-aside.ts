/** Reads where settings stand in a thread, so that requests go on meanwhile; it ends with its answer, or by its deadline. */
import type { Environment } from '../environment.ts'
import type { AskedPlace, PlacesFound } from './setting-places.ts'
import { askThread } from './thread.ts'

export interface PlacesRequest {
  /** The configuration. */
  readonly file: string
  readonly env: Environment
  /** In force. */
  readonly revision: string
  readonly asked: readonly AskedPlace[]
}

/** otherFiles: they are no longer what was taken. */
export type PlacesAnswer = PlacesFound | 'otherFiles'

/** Of a running gateway. Rejects where it takes longer than the deadline. */
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
