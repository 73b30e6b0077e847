/** Plays faults while clients call, and keeps what all of them have seen. */
import { setTimeout as sleep } from 'node:timers/promises'
import { quotaInRedis } from '../process/gateways.ts'
import { createChance } from '../simulation/virtual-time.ts'
import { targetOf } from './bodies.ts'
import { createCallers, type Caller } from './callers.ts'
import { createCrowd } from './crowd.ts'
import type { Counted, Fault, Run } from './events.ts'
import { playLine, stop } from './faults.ts'
import type { Planned } from './schedule.ts'
import type { World } from './world.ts'

export interface Plan {
  readonly seed: number
  readonly calmMs: number
  /** All in all; the first of each kind of fault may take longer. */
  readonly forMs: number
  /** They run beside each other; drawn when the calm is over. */
  lines(leftMs: number): readonly (readonly Planned[])[]
  readonly pauseMs?: number
}

export async function play(
  world: World,
  callers: readonly Caller[],
  { seed, calmMs, forMs, lines, pauseMs }: Plan,
) {
  const load = createCallers({ places: world.places, clients: callers }, createChance(seed * 7))
  const crowd = createCrowd(world.places, load, 'crowd')
  const faults: Fault[] = []
  const past = callPast(world)
  const startMs = Date.now()
  const untilMs = startMs + forMs
  const stopLoad = load.start(callers)
  await sleep(calmMs)
  const calmUntilMs = Date.now()
  await Promise.all(
    lines(untilMs - calmUntilMs).map((planned, at) => {
      const stage = { world, crowd, chance: createChance(seed * 11 + at) }
      return playLine(planned, stage, {
        faults,
        untilMs,
        ...(pauseMs === undefined ? {} : { pauseMs }),
      })
    }),
  )
  await sleep(Math.max(0, untilMs - Date.now()))
  stopLoad()
  past.stop()
  await load.settled()
  load.close()
  for (const place of world.places) await stop(place)
  const counted = new Map<string, Counted>()
  for (const { id } of callers) counted.set(id, quotaInRedis(world.store.master, id))

  const run: Run = {
    clients: callers,
    requests: load.requests,
    sightings: world.backends.flatMap((backend) => backend.sightings()),
    faults,
    past: past.spans,
    counted,
  }
  return { run, startMs, calmUntilMs, flooded: crowd.flooded }
}

/** Ten times a second, as the bystanders do by way of a gateway. */
function callPast({ reference }: World) {
  const spans: { sentMs: number; endMs: number }[] = []
  const url = reference.url + targetOf(0, { sends: 0, gets: 1_000 })
  const timer = setInterval(() => {
    const sentMs = Date.now()
    void fetch(url)
      .then((answer) => answer.text())
      .then(() => spans.push({ sentMs, endMs: Date.now() }))
  }, 100)
  return { spans, stop: () => clearInterval(timer) }
}
