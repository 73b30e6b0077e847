/** What a worker tells its supervisor of the moment: each second, the decisions that somebody listens to, and what is asked. */
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
  /** A supervisor that stands still must not fill the memory: what it does not take is told with the next. */
  let isUntaken = false
  const tell = async (at: number): Promise<void> => {
    if (isUntaken) return
    isUntaken = true
    await channel.send({ kind: 'second', second: packSecond(takeSecond(at)), now: now() })
    isUntaken = false
  }
  const stop = everySecond((at) => void tell(at))
  return {
    hear(message: LiveMessage): void {
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
    /** The last one; resolves when it was handed over. */
    lastSecond(): Promise<void> {
      stop()
      isUntaken = false
      return tell(Math.floor(Date.now() / 1000))
    },
  }
}
