/** The thread that setting-locations-aside.ts starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigError } from '../problems.ts'
import { readRevision } from './load.ts'
import type { LocationsAnswer, LocationsRequest } from './setting-locations-aside.ts'
import { readSettingLocations } from './setting-locations.ts'
import { standAside } from './thread.ts'

standAside()
parentPort?.postMessage(answer(workerData as LocationsRequest), [])

function answer({ file, env, revision, asked }: LocationsRequest): LocationsAnswer {
  try {
    const found = readSettingLocations(file, env, asked)
    // Files that were changed while they were read give no places.
    return readRevision(file, env) === revision ? found : 'otherFiles'
  } catch (error) {
    if (error instanceof ConfigError || (error as NodeJS.ErrnoException).code !== undefined)
      return 'otherFiles'
    throw error
  }
}
