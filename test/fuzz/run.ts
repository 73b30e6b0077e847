/** `npm run fuzz -- --requests 200000 --answers 50000 [--engine direct] [--seed N]`: as in the tests, for as long as one likes. */
import { parseArgs } from 'node:util'
import { scripts } from './answer-grammar.ts'
import { startAnswerWorld } from './answer-world.ts'
import { conversations } from './client-grammar.ts'
import { clientKeys, startClientWorld } from './client-world.ts'
import { randomSeed, report, type Explored } from './explored.ts'
import { fuzz, type Fuzzed } from './fuzzing.ts'

const ENGINES = ['direct', 'undici', 'http-proxy-3']
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '20000' },
    answers: { type: 'string', default: '5000' },
    engine: { type: 'string', multiple: true, default: ENGINES },
    seed: { type: 'string', default: String(randomSeed()) },
  },
})
const seed = Number(values.seed)

async function run<Script extends { readonly steps: readonly (string | number)[] }>(
  what: string,
  work: (isEnough: (explored: Explored) => boolean) => Promise<Fuzzed<Script>>,
  count: number,
): Promise<void> {
  if (count === 0) return
  const startedMs = performance.now()
  const { explored, found } = await work((sofar) => sofar.count(what) >= count)
  const seconds = (performance.now() - startedMs) / 1_000
  const rate = Math.round(explored.count(what) / seconds)
  console.log(`${what}: ${explored.count(what)} in ${Math.round(seconds)} s, ${rate} a second`)
  for (const line of explored.lines()) console.log(`  ${line}`)
  if (found === undefined) return
  console.log(report(found, seed))
  process.exitCode = 1
}

for (const engine of values.engine) {
  console.log(`engine ${engine}, seed ${seed}`)
  await run(
    'requests',
    (isEnough) =>
      fuzz(() => startClientWorld(engine), conversations(clientKeys), { seed, isEnough }),
    Number(values.requests),
  )
  await run(
    'answers',
    (isEnough) =>
      fuzz(() => startAnswerWorld(engine), scripts({ stalls: false }), { seed, isEnough }),
    Number(values.answers),
  )
}
