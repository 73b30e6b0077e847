/** Builds in a thread, so that requests go on meanwhile; it ends with its answer. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { BuildRequest, Built } from './builder.ts'

/** For what the buffers do not hold; a build needs some 30 MB. */
const HEAP_MB = 512

export const buildAside = (request: BuildRequest): Promise<Built> =>
  new Promise((resolve, reject) => {
    // Beside this file, as source or as built.
    const program = new URL(`./build-thread${extname(import.meta.filename)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB }
    const thread = new Worker(program, { workerData: request, resourceLimits })
    const fail = (cause?: unknown): void =>
      reject(new Error('the client files were not read: their thread has ended', { cause }))
    thread.once('message', resolve)
    thread.once('error', fail)
    thread.once('exit', () => fail())
  })
