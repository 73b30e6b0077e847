/** How each fault is done, and undone. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Chance } from '../simulation/virtual-time.ts'
import { workerPids } from '../server/workers/workers.ts'
import { eventually, type GatewayProcess } from '../process/gateways.ts'
import type { ChaosBackend } from './backends.ts'
import type { Crowd } from './crowd.ts'
import type { Fault, FaultKind } from './events.ts'
import { PAUSE_MS, type Planned } from './schedule.ts'
import type { Place, World } from './world.ts'

export interface Stage {
  readonly world: World
  readonly crowd: Crowd
  readonly chance: Chance
}

/** Does it, waits so long, undoes it, and waits until the part is whole; begins when it knows the part. */
type Play = (stage: Stage, forMs: number, begin: (part?: string) => void) => Promise<void>

const plays: Readonly<Record<FaultKind, Play>> = {
  // Away for so long, and back with its data, before anyone thinks of a failover.
  'store frozen': async ({ world: { store } }, forMs, begin) => {
    begin()
    store.master.freeze()
    await sleep(forMs)
    store.master.thaw()
    await store.isBack()
  },
  'store restarted': async ({ world: { store } }, forMs, begin) => {
    begin()
    await store.master.kill()
    await sleep(forMs)
    await store.master.restart()
    await store.isBack()
  },
  'store failed over': ({ world }, _, begin) => (begin(), world.store.failOver()),
  'gateway frozen': async (stage, forMs, begin) => {
    const { place, gateway } = pickGateway(stage, ({ workers }) => workers === 1)
    begin(place.name)
    gateway.signal('SIGSTOP')
    await sleep(forMs)
    gateway.signal('SIGCONT')
  },
  'worker killed': async (stage, _, begin) => {
    const { place, gateway } = pickGateway(stage, ({ workers }) => workers > 1)
    const [number, pid] = stage.chance.pick([...workerPids(gateway)])
    begin(place.name)
    const logged = gateway.stderr().length
    process.kill(pid, 'SIGKILL')
    // The log is long: not all of it is read again and again.
    const started = new RegExp(`"event":"workerStarted","worker":${number},"pid":`)
    const isReplaced = (): boolean => started.test(gateway.stderr().slice(logged))
    // One that was killed before waits longer, up to half a minute.
    await eventually('another worker in its place', isReplaced, 60_000)
  },
  'gateway killed': async (stage, forMs, begin) => {
    const { place, gateway } = pickGateway(stage, (one) => one.workers === 1 && !one.isNeverKilled)
    begin(place.name)
    place.gateway = undefined
    gateway.signal('SIGKILL')
    await gateway.finished
    await sleep(forMs)
    await stage.world.start(place)
  },
  'gateway restarted': async (stage, _, begin) => {
    const { place } = pickGateway(stage, () => true)
    begin(place.name)
    await stop(place)
    await stage.world.start(place)
  },
  'backend hangs': onBackend(async (backend, forMs) => {
    backend.freeze()
    await sleep(forMs)
    backend.thaw()
  }),
  'backend dies': onBackend(async (backend, forMs) => {
    await backend.kill()
    await sleep(forMs)
    await backend.restart()
  }),
  'backend breaks': onBackend((backend, forMs) => inMood(backend, 'breaking', forMs)),
  'backend slow': onBackend((backend, forMs) => inMood(backend, 'slow', forMs)),
  'backend busy': onBackend((backend, forMs) => inMood(backend, 'busy', forMs)),
  flood: ({ crowd }, forMs, begin) => (begin(), crowd.flood(forMs)),
  'slow crowd': ({ crowd }, forMs, begin) => (begin(), crowd.slow(forMs)),
}

function onBackend(work: (backend: ChaosBackend, forMs: number) => Promise<void>): Play {
  return ({ world, chance }, forMs, begin) => {
    const backend = chance.pick(world.backends)
    begin(backend.name)
    return work(backend, forMs)
  }
}

async function inMood(
  backend: ChaosBackend,
  mood: 'breaking' | 'slow' | 'busy',
  forMs: number,
): Promise<void> {
  backend.be(mood)
  await sleep(forMs)
  backend.be('well')
}

function pickGateway({ world, chance }: Stage, suits: (place: Place) => boolean) {
  const place = chance.pick(world.places.filter(suits))
  return { place, gateway: runningAt(place) }
}

function runningAt({ name, gateway }: Place): GatewayProcess {
  if (gateway === undefined) throw new Error(`there is no ${name}`)
  return gateway
}

/** SIGTERM, and a balancer that sends nothing more from then on. */
export async function stop(place: Place): Promise<void> {
  const gateway = runningAt(place)
  place.gateway = undefined
  gateway.signal('SIGTERM')
  const { code } = await gateway.finished
  if (code !== 0) throw new Error(`${place.name} ended with ${code} after SIGTERM`)
}

/** Plays a line of faults; each is in the list from its beginning on, without an end until it is over. */
export async function playLine(
  planned: readonly Planned[],
  stage: Stage,
  {
    faults,
    untilMs,
    pauseMs = PAUSE_MS[0],
  }: { faults: Fault[]; untilMs: number; pauseMs?: number },
): Promise<void> {
  const startMs = Date.now()
  for (const { kind, atMs, forMs, mustCome } of planned) {
    await sleep(Math.max(pauseMs, startMs + atMs - Date.now()))
    if (!mustCome && Date.now() + forMs > untilMs) return
    const fault = { kind, part: '', fromMs: Infinity, untilMs: Infinity }
    await plays[kind](stage, forMs, (part = '') => {
      fault.part = part
      fault.fromMs = Date.now()
      faults.push(fault)
    })
    fault.untilMs = Date.now()
  }
}
