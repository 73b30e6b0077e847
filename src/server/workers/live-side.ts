/** The live data that a worker sends to its supervisor: each second, decisions on demand, and answers to questions. */
import { answerCalls } from '../../state/supervisor/calls.ts'
import { everySecond } from '../../insight/live/every-second.ts'
import { packSecond } from '../../insight/live/packed-second.ts'
import type { Serving } from '../gateway/serving.ts'
import type { LiveMessage } from './messages.ts'
import type { WorkerCalls } from './questions.ts'
import type { SupervisorChannel } from './worker.ts'

export function createLiveSide(
  serving: Pick<Serving, 'takeSecond' | 'recent' | 'now' | 'readToken' | 'standing'>,
  channel: SupervisorChannel,
) {
  const { takeSecond, recent, now, readToken, standing } = serving
  /** A second that a stalled supervisor does not take is reported with the next, so that it does not fill the memory. */
  let isUnsent = false
  const sendSecond = async (at: number): Promise<void> => {
    if (isUnsent) return
    isUnsent = true
    await channel.send({ kind: 'second', second: packSecond(takeSecond(at)), now: now() })
    isUnsent = false
  }
  const stop = everySecond((at) => void sendSecond(at))
  return {
    receive(message: LiveMessage): void {
      if (message.kind === 'calls')
        answerCalls<WorkerCalls>(
          { recent: (query) => recent.find(query), readToken, standing },
          message,
          (answers) => {
            void channel.send(answers)
          },
        )
      else
        recent.listen(
          message.isWanted
            ? (decisions, untold) => void channel.send({ kind: 'decisions', decisions, untold })
            : undefined,
        )
    },
    /** Sends the last second; resolves when it was handed over. */
    lastSecond(): Promise<void> {
      stop()
      isUnsent = false
      return sendSecond(Math.floor(Date.now() / 1000))
    },
  }
}
