/** The thread that places-aside.ts starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigError } from '../problems.ts'
import { readRevision } from './load.ts'
import type { PlacesAnswer, PlacesRequest } from './places-aside.ts'
import { readSettingPlaces } from './setting-places.ts'
import { standAside } from './thread.ts'

standAside()
parentPort?.postMessage(answer(workerData as PlacesRequest), [])

function answer({ file, env, revision, asked }: PlacesRequest): PlacesAnswer {
  try {
    const found = readSettingPlaces(file, env, asked)
    // Files that were changed while they were read give no places.
    return readRevision(file, env) === revision ? found : 'otherFiles'
  } catch (error) {
    if (error instanceof ConfigError || (error as NodeJS.ErrnoException).code !== undefined)
      return 'otherFiles'
    throw error
  }
}
