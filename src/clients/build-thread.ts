/** The thread that build-aside.ts starts. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { build, type BuildRequest } from './builder.ts'

/** Requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process. */
const NICE = 10
if (process.platform === 'linux') setPriority(0, NICE)

const built = build(workerData as BuildRequest)
parentPort?.postMessage(built, built.ring === undefined ? [] : [built.ring.buffer])
