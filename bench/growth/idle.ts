/** A worker that holds keep-alive connections open: each has one request answered whenever it is told to. */
import { obey } from '../own-process.ts'
import { openAsker, requestHead, type Asker } from '../wire.ts'

export interface IdleOrder {
  readonly port: number
  readonly keys: readonly string[]
  readonly path: string
  /** It opens connections until there are so many; each open one sends one request. */
  readonly connections: number
}

export interface IdleOutcome {
  readonly open: number
  /** Connections whose request was answered with 200. */
  readonly served: number
}

/** Requests under way at once: fewer than the listener's backlog. */
const lanes = 200

const askers: Asker[] = []

obey(async ({ port, keys, path, connections }: IdleOrder): Promise<IdleOutcome> => {
  let [served, next] = [0, 0]
  const lane = async (): Promise<void> => {
    for (let nth = next++; nth < connections; nth = next++) {
      const asker = (askers[nth] ??= openAsker(port))
      const answer = await asker.ask(requestHead(path, { key: keys[nth % keys.length] }))
      if (typeof answer === 'object' && answer.status === 200) served += 1
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return { open: askers.filter((asker) => asker.isOpen()).length, served }
})
