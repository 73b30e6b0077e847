/** Who asks: the victim and the greedy ones may ask as often as they like, the last one 60 times a minute. */
import { benchClients, type BenchClient } from '../workload.ts'

export const METERED_PER_MINUTE = 60

const names = [
  'victim',
  'greedy',
  'greedy2',
  'greedy3',
  'greedy4',
  'accomplice',
  'metered',
] as const
const known = benchClients('hostile', names.length)
export const clients = Object.fromEntries(names.map((name, at) => [name, known[at]])) as Readonly<
  Record<(typeof names)[number], BenchClient>
>
