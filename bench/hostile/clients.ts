/** Who asks. */
import { benchClients, type BenchClient } from '../workload.ts'

export const METERED_PER_MINUTE = 60

const everyone = benchClients('hostile', 7)
/** A client by its place: the victim and the greedy ones may ask as often as they like, the last one 60 times a minute. */
const nth = (at: number): BenchClient => everyone[at] as BenchClient
export const clients = {
  victim: nth(0),
  greedy: nth(1),
  greedy2: nth(2),
  greedy3: nth(3),
  greedy4: nth(4),
  accomplice: nth(5),
  metered: nth(6),
}
