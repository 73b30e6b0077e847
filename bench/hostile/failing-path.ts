/** Two keys on a path that no backend answers well, beside a client on a healthy one: is a backend, or the whole gateway, taken from it? */
import { setTimeout as sleep } from 'node:timers/promises'
import type { HostileCase } from './cases.ts'
import { begin, head, see, type Play } from './play.ts'
import { gateway, haproxy, nginx, type Server } from './servers.ts'
import { clients } from './setup.ts'

const LOOK_EVERY_MS = 100

interface Readiness {
  readonly ready: boolean
  readonly checks: readonly { readonly backends?: readonly { readonly state: string }[] }[]
}

/** Asks the gateway all the time whether it is ready. */
function watchReadiness(admin: string) {
  const seen = { looks: 0, red: 0, down: 0 }
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      const response = await fetch(`${admin}/readyz`)
      const { ready, checks } = (await response.json()) as Readiness
      const states = checks.flatMap(({ backends = [] }) => backends.map(({ state }) => state))
      seen.looks++
      if (!ready) seen.red++
      if (states.some((state) => state !== 'up')) seen.down++
      await sleep(LOOK_EVERY_MS)
    }
  })()
  return async () => {
    over.abort()
    await watching
    return seen
  }
}

const playOf = (path: string, backends: number): Play => ({
  ms: 5_000,
  backends,
  client: { connections: 8, everyMs: 10 },
  attack: {
    attack: 'brokenBodies',
    head: [clients.greedy, clients.accomplice].map(({ key }) => head(path, { key })).join(''),
    connections: 6,
    times: 1_000_000,
  },
})

export const failingPath = (how: string, path: string, backends: number): HostileCase => ({
  name: `path-${how}-${backends}`,
  title: `two keys on a path that ${how === 'closes' ? 'closes' : 'answers 502'}, ${backends} backends`,
  wanted: 'all 200, p99 < 100 ms, always ready, no backend down',
  servers: [gateway('direct'), nginx, haproxy],
  run: async (processes, server: Server) => {
    const play = playOf(path, backends)
    const battle = await begin(processes, server, play)
    const isGateway = server.kind === 'gateway'
    const stop = isGateway ? watchReadiness(await battle.server.listening('admin')) : undefined
    const sight = await see(battle, play)
    const { looks, red, down } = (await stop?.()) ?? { looks: 0, red: 0, down: 0 }
    const asked = Object.values(sight.answers).reduce((sum, count) => sum + count, 0)
    const served = (sight.answers['200'] ?? 0) / Math.max(asked, 1)
    const readiness = isGateway
      ? `, of ${looks} looks ${red} not ready, ${down} a backend down`
      : ''
    return {
      sight,
      found: `${(100 * served).toFixed(1)} % served${readiness}`,
      value: served < 1 ? Infinity : red + down,
    }
  },
  isMet: ({ value, sight }) => value === 0 && sight.p99Ms < 100,
})
