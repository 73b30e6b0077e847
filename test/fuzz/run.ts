/** `npm run fuzz -- --requests 200000 [--engine direct] [--seed N]`: the same as in the tests, for as long as one likes. */
import { parseArgs } from 'node:util'
import { randomSeed, report } from './explored.ts'
import { fuzzClients } from './fuzz-clients.ts'

const ENGINES = ['direct', 'undici', 'http-proxy-3']
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '20000' },
    engine: { type: 'string', multiple: true, default: ENGINES },
    seed: { type: 'string', default: String(randomSeed()) },
  },
})
const seed = Number(values.seed)

for (const engine of values.engine) {
  const startedMs = performance.now()
  const { explored, found } = await fuzzClients({ engine, requests: Number(values.requests), seed })
  const seconds = (performance.now() - startedMs) / 1_000
  console.log(`${engine}, seed ${seed}: ${Math.round(seconds)} s`)
  for (const line of explored.lines()) console.log(`  ${line}`)
  if (found === undefined) continue
  console.log(report(found, seed))
  process.exitCode = 1
}
