/** Threads that read files beside the one that serves, each for one answer. */
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'

/** Heap for all that is outside the buffers; a build needs some 30 MB. */
const HEAP_MB = 512

/** name: program beside this file. Rejects where the thread ends without an answer, or gives none within deadlineMs. */
export const askThread = <Answer>(
  name: string,
  workerData: unknown,
  deadlineMs?: number,
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    // The extension is that of the source or of the build.
    const program = new URL(`./${name}${extname(import.meta.filename)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB }
    const thread = new Worker(program, { workerData, resourceLimits })
    const late =
      deadlineMs === undefined ? undefined : setTimeout(() => void thread.terminate(), deadlineMs)
    const fail = (cause?: unknown): void => {
      clearTimeout(late)
      const why = cause instanceof Error ? cause.message : `no answer within ${deadlineMs} ms`
      reject(new Error(`the thread that reads files has ended: ${why}`, { cause }))
    }
    thread.once('message', resolve)
    thread.once('error', fail)
    thread.once('exit', () => fail())
  })

/** Lets requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process. */
export function standAside(): void {
  if (process.platform === 'linux') setPriority(0, NICE)
}
const NICE = 10
