/** Real libraries that back off, eight loops of each, against a real gateway: none of them is banned. Real time, so only the schedules' first 15 s, which hold most of a minute's requests. */
import { createRequire } from 'node:module'
import pRetry from 'p-retry'
import { afterAll, expect, it } from 'vitest'
import { runTenacity } from '../support/tenacity.ts'
import {
  call,
  clientsBlock,
  configFile,
  endAll,
  gatewayProcess,
  rawBackend,
  times,
} from './gateways.ts'

afterAll(endAll)

const loops = 8
/** At 0, 1, 3, 7 and 15 s. */
const retries = 4

/** It comes without types. */
const makeFetchHappen = createRequire(import.meta.url)('make-fetch-happen') as (
  url: string,
  options: object,
) => Promise<{ readonly status: number }>

const tenacityLoops = `
import sys, threading, urllib.request
from tenacity import retry, stop_after_attempt, wait_exponential
url, key, loops, retries = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
@retry(wait=wait_exponential(multiplier=1), stop=stop_after_attempt(retries + 1), reraise=True)
def fetch():
    urllib.request.urlopen(urllib.request.Request(url, headers={'Authorization': 'Bearer ' + key}))
statuses = []
def loop():
    try:
        fetch()
    except urllib.error.HTTPError as error:
        statuses.append(error.code)
threads = [threading.Thread(target=loop) for _ in range(loops)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*statuses, sep='\\n')
`

/** Runs the loops to their end; resolves with the status that each of them ended in. */
const clients: Record<string, (url: string, key: string) => Promise<number[]>> = {
  'p-retry': (url, key) =>
    Promise.all(
      times(loops, async () => {
        let status = 0
        const once = async (): Promise<void> => {
          status = (await call(url, key)).status
          if (status === 429) throw new Error('429')
        }
        await pRetry(once, { retries }).catch(() => undefined)
        return status
      }),
    ),
  'make-fetch-happen': (url, key) =>
    Promise.all(
      times(loops, async () => {
        const headers = { authorization: `Bearer ${key}` }
        const retry = { retries, factor: 2, minTimeout: 1000 }
        return (await makeFetchHappen(url, { headers, retry })).status
      }),
    ),
  tenacity: async (url, key) => {
    const printed = await runTenacity(tenacityLoops, url, key, String(loops), String(retries))
    return printed.trim().split('\n').map(Number)
  },
}

it.concurrent.each(Object.entries(clients))(
  'eight loops of %s come to fewer strikes than a minute may have, and to no ban',
  async (_, run) => {
    const backend = await rawBackend()
    const key = 'tg_backing_off'
    const client = { id: 'acme', keys: [key], perMinute: 1, perDay: 1 }
    const gateway = await gatewayProcess(
      configFile(backend.url, { clients: clientsBlock([client]) }),
    )
    expect((await gateway.call(key)).status).toBe(200)
    const ended = await run(`${gateway.origin}/v1/pets`, key)
    expect(ended).toEqual(times(loops, () => 429))
    // The first ones fall into the grace period; a minute has one more for each loop, at 31 s: 48 at most, and 90 ban.
    const strikes = await gateway.metric('tollgate_strikes_total')
    expect(strikes).toBeGreaterThanOrEqual(loops * (retries - 1))
    expect(strikes).toBeLessThanOrEqual(loops * (retries + 1))
    expect(await gateway.metric('tollgate_bans_total')).toBe(0)
  },
)

it.concurrent(
  'two requests a second are banned within the time that strikes count in',
  async () => {
    const backend = await rawBackend()
    const key = 'tg_steady'
    const gateway = await gatewayProcess(
      configFile(backend.url, {
        clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: 1, perDay: 1 }]),
        // The pace of the default, in half its time.
        bans: 'bans: { strikes: 45, within: 30s }',
      }),
    )
    const startMs = performance.now()
    let sent = 0
    let code: string | undefined
    while (code !== 'api_key_banned' && performance.now() - startMs < 30_000) {
      const waitMs = startMs + 500 * sent++ - performance.now()
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, waitMs)))
      code = (await gateway.call(key)).code
    }
    expect(code).toBe('api_key_banned')
  },
)
