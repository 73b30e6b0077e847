/** Builds in a thread, so that requests go on meanwhile; it ends with its answer. */
import type { BuildRequest, Built } from './builder.ts'
import { askThread } from './thread.ts'

export const buildAside = (request: BuildRequest): Promise<Built> =>
  askThread('build-thread', request)
