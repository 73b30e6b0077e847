/** Takes a turn among the client's requests: none has more of them under way than its plan's `concurrent`, so none holds everything. */
import type { TurnsOfClients } from './client-turns.ts'
import type { Caller } from '../rules/credentials.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { whenKnown } from '../rules/when-known.ts'
import type { Exchange } from './exchange.ts'

type Turn = Refusal | undefined

/** The turn ends with the exchange. A refusal here is no strike, as no 429 came before it. */
export function createTakeTurn(turns: Pick<TurnsOfClients, 'of' | 'take'>) {
  const refusals = new WeakMap<Caller, Refusal>()
  return function takeTurn(exchange: Exchange, caller: Caller): Turn | Promise<Turn> {
    if (exchange.isOver) return undefined
    const client = turns.of(caller.clientId)
    const taken = turns.take(client, caller.concurrent)
    if (taken instanceof Promise) exchange.wait()
    return whenKnown(taken, (isTaken) => {
      exchange.goOn()
      if (!isTaken) return tooMany(refusals, caller)
      if (exchange.recorded) client.giveBack()
      else exchange.turn = client
      return undefined
    })
  }
}

function tooMany(refusals: WeakMap<Caller, Refusal>, caller: Caller): Refusal {
  const known = refusals.get(caller)
  if (known !== undefined) return known
  const detail = `Limit: ${caller.concurrent} at once. Retry in 1 s.`
  const limited = { limit: caller.concurrent }
  const refusal = refuse('concurrency_limit_exceeded', { detail, retryAfterSeconds: 1, limited })
  refusals.set(caller, refusal)
  return refusal
}
