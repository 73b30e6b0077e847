/** Attacks by tokens that somebody made up, beside a client each of whose requests brings a token that nobody has seen before. */
import type { HostileCase } from './cases.ts'
import { TOKEN } from './forged-tokens.ts'
import { ALGORITHM, claims, startIssuer, type Issuer } from './issuer.ts'
import type { AttackOrder } from './orders.ts'
import { begin, head, see, type Battle, type Sight } from './play.ts'
import { gateway, haproxy } from './servers.ts'

const EVERY_MS = 20
/** Warm-up included. */
const CLIENT_MS = 7_000
const ROTATED_AFTER_MS = 3_000
const PER_SECOND = 1_200

const floodOf = (connections: number, kid?: string): Omit<AttackOrder, 'port' | 'ms'> => ({
  attack: 'forgedTokens',
  head: head('/v1/pets', { key: TOKEN }),
  connections,
  times: PER_SECOND,
  forged: { alg: ALGORITHM, claims, ...(kid !== undefined && { kid }) },
})

interface TokenPlay {
  readonly connections: number
  readonly kid?: string
  /** When the client's tokens are of the new key, from the beginning of its time on. */
  readonly rotatedAfterMs?: number
  readonly meanwhile?: (issuer: Issuer, battle: Battle) => void
  readonly found: (sight: Sight) => [string, number]
}

const byTokens =
  ({
    connections,
    kid,
    rotatedAfterMs = Infinity,
    meanwhile,
    found,
  }: TokenPlay): HostileCase['run'] =>
  async (processes, server) => {
    const issuer = await startIssuer()
    const heads = Array.from({ length: CLIENT_MS / EVERY_MS }, (_, nth) =>
      head('/v1/pets', { key: issuer.token(nth * EVERY_MS < rotatedAfterMs ? 'first' : 'second') }),
    )
    const play = { setup: { issuer }, attack: floodOf(connections, kid), ms: 6_000 }
    try {
      const battle = await begin(processes, server, play)
      const sight = await see(battle, {
        ...play,
        client: { everyMs: EVERY_MS, heads },
        meanwhile: (running) => meanwhile?.(issuer, running),
      })
      const [text, value] = found(sight)
      return { sight, found: text, value }
    } finally {
      issuer.close()
    }
  }

const served = ({ answers }: Sight): number =>
  (answers['200'] ?? 0) / Object.values(answers).reduce((sum, one) => sum + one, 0)

const percent = (value: number): string => `${(100 * value).toFixed(1)} % served`

export const tokenCases: readonly HostileCase[] = [
  {
    name: 'tokens-forged',
    title: `${PER_SECOND} forged ${ALGORITHM} tokens a second of one address, a fresh token each ${EVERY_MS} ms of another`,
    wanted: 'all 200, p99 < 100 ms',
    // nginx as it comes checks no tokens.
    servers: [gateway('direct'), haproxy],
    run: byTokens({
      connections: 40,
      kid: 'first',
      found: (sight) => [percent(served(sight)), sight.p99Ms],
    }),
    isMet: ({ sight }) => served(sight) === 1 && sight.p99Ms < 100,
  },
  {
    name: 'tokens-rotation',
    title: `a rotated key beside ${PER_SECOND} tokens a second that name invented ones`,
    wanted: 'no 401, not 200 for at most 2 s',
    // HAProxy as it comes fetches no key sets.
    servers: [gateway('direct')],
    run: byTokens({
      // A token that names an unknown key may be kept waiting, so it takes more of them.
      connections: 400,
      rotatedAfterMs: ROTATED_AFTER_MS,
      // A second of warm-up is over.
      meanwhile: (issuer) => void setTimeout(() => issuer.rotate(), ROTATED_AFTER_MS - 1_000 - 100),
      found: (sight) => {
        const notServed = Object.entries(sight.answers).filter(([status]) => status !== '200')
        const awayMs = notServed.reduce((sum, [, count]) => sum + count, 0) * EVERY_MS
        return [`${awayMs} ms not served`, awayMs]
      },
    }),
    isMet: ({ value, sight }) => value <= 2_000 && sight.answers['401'] === undefined,
  },
]
