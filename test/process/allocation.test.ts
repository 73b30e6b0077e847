/** What a request allocates, by a bare proxy's: the steadiest figure of what it costs, as it hardly depends on the machine. */
import { afterAll, expect, it } from 'vitest'
import { portOf } from '../../bench/load-order.ts'
import { askProbe } from '../../bench/metrics.ts'
import { endAllProcesses, withProcesses } from '../../bench/processes.ts'
import { bareProxySubject, gatewaySubject, startBackend } from '../../bench/subjects.ts'
import type { Subject } from '../../bench/subjects.ts'
import { openAsker, requestHead } from '../../bench/wire.ts'
import { ampleClients, requestPath } from '../../bench/workload.ts'

// A test that is too slow leaves nothing behind either.
afterAll(endAllProcesses)

const batches = 6
const requests = 1_500
const connections = 16
const heads = ampleClients.map(({ key }) => requestHead(requestPath, { key }))

/** The least of all batches: code that the compiler has not optimised yet allocates more. */
async function bytesPerRequest({ server, probe = '' }: Subject): Promise<number> {
  const askers = Array.from({ length: connections }, () => openAsker(portOf(server.origin)))
  const found: number[] = []
  for (let batch = 0; batch < batches; batch++) {
    const before = await askProbe(probe)
    let left = requests
    const lane = async (asker: (typeof askers)[number]): Promise<void> => {
      while (left-- > 0) {
        const answer = await asker.ask(heads[left % heads.length] ?? '')
        if (typeof answer === 'string' || answer.status !== 200)
          throw new Error(`no answer: ${JSON.stringify(answer)}`)
      }
    }
    await Promise.all(askers.map(lane))
    const after = await askProbe(probe)
    found.push((after.allocatedBytes - before.allocatedBytes) / requests)
  }
  for (const asker of askers) asker.close()
  return Math.min(...found)
}

it('a request allocates no more than a few times what it does in a proxy without policy', async () => {
  const [gateway, bare] = await withProcesses(async (processes) => {
    const backend = (await startBackend(processes)).origin
    const subjects = [
      await gatewaySubject(processes, { name: 'gateway', backend }, { store: 'embedded' }),
      await bareProxySubject(processes, { name: 'proxy-net', backend }),
    ]
    return Promise.all(subjects.map(bytesPerRequest))
  })
  // Seen: 7.7 to 8.0 on a busy machine, 24,000 bytes by 3,050; up to 9.3 where the compiler has come further.
  expect((gateway ?? NaN) / (bare ?? NaN)).toBeLessThan(11)
})
