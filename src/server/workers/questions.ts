/** Asks the workers on behalf of the supervisor, and combines their answers. */
import type { Requests } from '../../insight/api/live.ts'
import { createIpcCalls, type AnswerBatch, type IpcCalls } from '../../state/supervisor/calls.ts'
import type { ReadToken } from '../gateway/read-token.ts'
import type { CallerIds, CallerStanding } from '../../insight/explain/question.ts'
import { LISTED_DECISIONS, type RequestQuery, type Decision } from '../../core/record/recent.ts'
import type { WorkerProcess } from './worker-process.ts'

/** Calls of a supervisor to its workers. */
export interface WorkerCalls {
  recent(query: RequestQuery): readonly Decision[]
  readToken(token: string): ReadToken
  standing(caller: CallerIds): CallerStanding
}

const DEADLINE_MS = 1_000

export class Questions {
  readonly #lanes = new Map<WorkerProcess, IpcCalls<WorkerCalls>>()

  /** Adds a worker that takes requests; it is asked until its end. */
  add(worker: WorkerProcess): void {
    const lane = createIpcCalls<WorkerCalls>({
      lane: 'questions',
      timeoutMs: DEADLINE_MS,
      send: (batch) => worker.notify(batch),
    })
    this.#lanes.set(worker, lane)
    void worker.ended.then(() => {
      this.#lanes.delete(worker)
      lane.close()
    })
  }

  receive(worker: WorkerProcess, answers: AnswerBatch): void {
    this.#lanes.get(worker)?.receive(answers)
  }

  /** missing: the workers that have not answered in time. Never rejects. */
  async askAll<Answer>(ask: (worker: IpcCalls<WorkerCalls>, number: number) => Promise<Answer>) {
    const missing: string[] = []
    const asked = Array.from(this.#lanes, ([{ number }, lane]) =>
      ask(lane, number).catch(() => void missing.push(`worker ${number} does not answer`)),
    )
    const answers = await Promise.all(asked)
    return { answers: answers.filter((one) => one !== undefined), missing }
  }

  /** Asks any one worker. Rejects where none answers. */
  readToken(token: string): Promise<ReadToken> {
    const [worker] = this.#lanes.values()
    if (worker === undefined) return Promise.reject(new Error('no worker takes requests'))
    return worker.call('readToken', token)
  }

  standings(caller: CallerIds) {
    return this.askAll(async (lane, worker) => ({
      ...(await lane.call('standing', caller)),
      worker,
    }))
  }

  async recent(query: RequestQuery): Promise<Pick<Requests, 'requests'> & { missing: string[] }> {
    const { answers, missing } = await this.askAll((worker) => worker.call('recent', query))
    const requests = answers.flat().sort((one, other) => (one.at < other.at ? 1 : -1))
    return { requests: requests.slice(0, LISTED_DECISIONS), missing }
  }
}
