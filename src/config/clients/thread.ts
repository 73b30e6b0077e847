/** Threads that read files beside the one that serves, each for one answer. */
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'

/** For what the buffers do not hold; a build needs some 30 MB. */
const HEAP_MB = 512

/** name: of the program beside this file. Rejects where it ends without an answer, or has none within deadlineMs. */
export const askThread = <Answer>(
  name: string,
  workerData: unknown,
  deadlineMs?: number,
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    // As source or as built.
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

/** Requests come first. On Linux this is the priority of the thread alone; elsewhere it would be that of the whole process. */
export function standAside(): void {
  if (process.platform === 'linux') setPriority(0, NICE)
}
const NICE = 10
