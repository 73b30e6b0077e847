/** One run, in a process whose group is all that it starts: `node player.ts MINUTES SEED`. Prints the report; exit 1: differences. */
import { argv, exit, kill, pid } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { createChance } from '../simulation/virtual-time.ts'
import { endAll } from '../process/gateways.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import { createCallers, type Caller } from './callers.ts'
import { targetOf } from './bodies.ts'
import { createCrowd } from './crowd.ts'
import type { Fault, Run, Sample, Sighting } from './events.ts'
import { playLine, stop } from './faults.ts'
import { compare, groupBy } from './ledger.ts'
import { felt, latencies } from './latency.ts'
import * as report from './report.ts'
import { planFaults } from './schedule.ts'
import { startWorld, type World } from './world.ts'

// Who started this has gone: nobody else would end the rest.
process.once('disconnect', () => kill(-pid, 'SIGKILL'))

const plain = { obeys: true, isBystander: false, meetsNoKill: false }
const callers: readonly Caller[] = [
  { ...plain, id: 'bystander', perMinute: 6_000, perSecond: 20, isBystander: true },
  {
    ...plain,
    id: 'neighbour',
    perMinute: 3_000,
    perSecond: 12,
    isBystander: true,
    meetsNoKill: true,
  },
  { ...plain, id: 'small', perMinute: 60, perSecond: 3 },
  { ...plain, id: 'middle', perMinute: 300, perSecond: 12, meetsNoKill: true },
  { ...plain, id: 'greedy', perMinute: 120, perSecond: 12, obeys: false },
  { ...plain, id: 'talker', perMinute: 300, perSecond: 1, talks: true },
  { ...plain, id: 'crowd', perMinute: 3_000, perSecond: 0 },
]
const gateways = [
  { workers: 1, engine: 'direct', isNeverKilled: false },
  { workers: 2, engine: 'direct', isNeverKilled: false },
  { workers: 1, engine: 'direct', isNeverKilled: true },
] as const
/** In runs of more than a minute. */
const others = [
  { workers: 1, engine: 'undici', isNeverKilled: true },
  { workers: 1, engine: 'http-proxy-3', isNeverKilled: true },
] as const
/** Latency is judged in runs that are long enough to tell. */
const JUDGES_LATENCY_FROM_MINUTES = 3
const CALM_SHARE = 0.12

const [, , minutesText, seedText] = argv
const [minutes, seed] = [Number(minutesText), Number(seedText)]

async function play(world: World): Promise<0 | 1> {
  const load = createCallers({ places: world.places, clients: callers }, createChance(seed * 7))
  const crowd = createCrowd(world.places, load, 'crowd')
  const faults: Fault[] = []
  const samples: Sample[] = []
  const read = (): Run => ({
    clients: callers,
    requests: load.requests,
    sightings: world.backends.flatMap((backend) => backend.sightings()),
    faults,
    samples,
    past: past.spans,
  })
  const past = callPast(world)
  const after = checkSettled(world, read, samples)

  const startMs = Date.now()
  const untilMs = startMs + minutes * 60_000
  const stopLoad = load.start(callers)
  await sleep(CALM_SHARE * minutes * 60_000)
  const calmUntilMs = Date.now()
  await after()
  await Promise.all(
    planFaults(seed, untilMs - calmUntilMs).map((planned, at) => {
      const stage = { world, crowd, chance: createChance(seed * 11 + at) }
      return playLine(planned, stage, { faults, untilMs, after })
    }),
  )
  await sleep(Math.max(0, untilMs - Date.now()))
  stopLoad()
  past.stop()
  await load.settled()
  load.close()
  for (const place of world.places) await stop(place)
  const counted = new Map<string, Sample>()
  for (const { id } of callers) counted.set(id, await sample(world, id, 0))

  const run = { ...read(), counted }
  const differences = compare(run)
  const latency = latencies(run, calmUntilMs)
  const isShort = minutes < JUDGES_LATENCY_FROM_MINUTES
  const failures = [...(isShort ? [] : felt(latency)), ...report.notShown(run, isShort)]
  const parts = [
    `chaos: ${minutes} min, seed ${seed}; ${load.requests.length} requests, ${run.sightings.length} seen by backends`,
    report.describeFaults(faults, startMs),
    report.describeOutcomes(run),
    `flood: ${JSON.stringify(Object.fromEntries(crowd.flooded))}`,
    report.describeLatencies(latency),
    `ledger differences: ${differences.length}`,
    report.describeDifferences(differences, run, { startMs, logLines: world.logLines() }),
    ...failures.map((failure) => `failed: ${failure}`),
  ]
  console.log(parts.filter((part) => part !== '').join('\n\n'))
  return differences.length + failures.length === 0 ? 0 : 1
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

async function sample({ store }: World, client: string, seen: number): Promise<Sample> {
  const { dayTaken, dayUsed, minuteTaken } = await store.counted(client)
  return { client, seen, atMs: Date.now(), dayTaken, dayUsed, minuteTaken }
}

/** After each fault: reads the counters, and tells what differs in what has settled since the last time. */
function checkSettled(world: World, read: () => Run, samples: Sample[]): () => Promise<void> {
  let from = 0
  return async () => {
    const { clients, requests, sightings, faults } = read()
    const running = faults.filter(({ untilMs }) => untilMs === Infinity)
    const beforeMs = Math.min(...running.map(({ fromMs }) => fromMs), Date.now())
    const open = requests.findIndex(({ endMs = Infinity }, at) => at >= from && endMs >= beforeMs)
    const settled = requests.slice(from, open < 0 ? undefined : open)
    const isSettled = ({ number }: Sighting): boolean =>
      number >= from && number < from + settled.length
    const differences = compare({
      clients,
      requests: settled,
      sightings: sightings.filter(isSettled),
      faults,
      samples: [],
      past: [],
    })
    from += settled.length
    const latest = faults.findLast(({ untilMs }) => untilMs < Infinity)
    // What is a share of all can be told at the end only.
    for (const { rule, client, detail } of differences.filter(({ client }) => client !== 'all'))
      console.log(`after ${latest?.kind ?? 'the calm'}: ${rule}: ${client}: ${detail}`)

    const seen = groupBy(
      new Set(sightings.map(({ number }) => number)),
      (number) => requests[number]?.client,
    )
    for (const { id } of clients) {
      // Nothing is read of a store that is away just now.
      const taken = await sample(world, id, seen.get(id)?.length ?? 0).catch(() => undefined)
      if (taken !== undefined) samples.push(taken)
    }
  }
}

await dayWithAtLeast((minutes + 1) * 60_000)
const world = await startWorld(callers, minutes > 1 ? [...gateways, ...others] : gateways)
const code = await play(world)
await endAll()
await world.close()
exit(code)
