/** The thread that build-aside.ts starts. */
import { parentPort, workerData } from 'node:worker_threads'
import { build, type BuildRequest } from './builder.ts'
import { standAside } from './thread.ts'

standAside()
const built = build(workerData as BuildRequest)
parentPort?.postMessage(built, built.table === undefined ? [] : [built.table.buffer])
