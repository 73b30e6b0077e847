/** `tollgate worker`: a worker process, which only a supervisor starts. */
import { createLog } from '../core/record/log.ts'
import { createWorker } from '../server/workers/worker.ts'
import type { Edge } from './edge.ts'
import { FAILED, Fault } from './terminal/fault.ts'

export async function workerCommand(edge: Edge): Promise<number> {
  if (edge.supervisor === undefined) {
    const fault = 'worker is no command of its own: start starts workers (server.workers)'
    throw new Fault('usage', fault)
  }
  const log = createLog({ level: 'info', access: false })
  const worker = createWorker(edge.supervisor)
  edge.attend({
    // The supervisor decides what signals mean: a key press, or a service manager, sends them to all processes at once.
    signal: () => undefined,
    warning: (warning) => log.warning(warning),
    crash: (error) => {
      worker.crash(error)
      edge.exit(FAILED)
    },
  })
  // All output has gone out: no remaining handle may hold up a roll or a stop.
  return edge.exit(await worker.finished)
}
