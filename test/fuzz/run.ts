/** `npm run fuzz -- --requests 200000 --answers 50000 [--engine direct] [--seed N]`: as in the tests, for as long as one likes. */
import { parseArgs } from 'node:util'
import { endAll } from '../support/ending.ts'
import { fuzz, randomSeed } from './fuzzing.ts'
import { sides } from './sides.ts'

const ENGINES = ['direct', 'http-proxy-3']
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '20000' },
    answers: { type: 'string', default: '5000' },
    engine: { type: 'string', multiple: true, default: ENGINES },
    seed: { type: 'string', default: String(randomSeed()) },
  },
})
const seed = Number(values.seed)

for (const engine of values.engine) {
  console.log(`engine ${engine}, seed ${seed}`)
  for (const side of [sides.clients, sides.backends]) {
    const count = Number(values[side.unit])
    if (count === 0) continue
    const startedMs = performance.now()
    const { explored, found } = await fuzz(side, { engine, count, seed })
    const seconds = (performance.now() - startedMs) / 1_000
    const all = explored.count(side.unit)
    console.log(`${side.unit}: ${all} in ${Math.round(seconds)} s, ${Math.round(all / seconds)}/s`)
    for (const line of explored.lines()) console.log(`  ${line}`)
    if (found === undefined) continue
    console.log(found)
    process.exitCode = 1
  }
}
await endAll()
