/** Real libraries that back off, eight loops of each, against a real gateway, with seconds as long as is said; only the schedules' first 15 s, which hold most of a minute's requests. */
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { expect } from 'vitest'
import { runTenacity } from '../support/tenacity.ts'
import { call, clientsBlock, configFile, gatewayHere, startRawBackend, times } from './gateways.ts'

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
url, key, loops, retries, second = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
@retry(wait=wait_exponential(multiplier=second), stop=stop_after_attempt(retries + 1), reraise=True)
def fetch():
    urllib.request.urlopen(urllib.request.Request(url, headers={'Authorization': 'Bearer ' + key}))
statuses = []
def loop():
    try:
        fetch()
    except urllib.error.HTTPError as error:
        statuses.append(error.code)
threads = [threading.Thread(target=loop) for _ in range(int(loops))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*statuses, sep='\\n')
`

/** Runs the loops to their end; resolves with the status that each of them ended in. */
export const clients: Record<
  string,
  (url: string, key: string, secondMs: number) => Promise<number[]>
> = {
  'p-retry': (url, key, secondMs) =>
    Promise.all(
      times(loops, async () => {
        let status = 0
        const once = async (): Promise<void> => {
          status = (await call(url, key)).status
          if (status === 429) throw new Error('429')
        }
        await pRetry(once, { retries, minTimeout: secondMs }).catch(() => undefined)
        return status
      }),
    ),
  'make-fetch-happen': (url, key, secondMs) =>
    Promise.all(
      times(loops, async () => {
        const headers = { authorization: `Bearer ${key}` }
        const retry = { retries, factor: 2, minTimeout: secondMs }
        return (await makeFetchHappen(url, { headers, retry })).status
      }),
    ),
  tenacity: async (url, key, secondMs) => {
    const numbers = [loops, retries, secondMs / 1_000].map(String)
    const printed = await runTenacity(tenacityLoops, url, key, ...numbers)
    return printed.trim().split('\n').map(Number)
  },
}

/** A gateway with the default pace of bans, and a client that may ask once. */
async function scene(secondMs: number) {
  const [backend, key] = [await startRawBackend(), 'tg_going_on']
  const block = clientsBlock([{ id: 'acme', keys: [key], perMinute: 1, perDay: 1 }])
  const bans = `bans: { strikes: 90, within: ${60 * secondMs}ms, grace: ${secondMs}ms }`
  const gateway = await gatewayHere(configFile(backend.url, { clients: block, bans }))
  expect((await gateway.call(key)).status).toBe(200)
  return { gateway, key }
}

export async function comeToNoBan(client: string, secondMs: number): Promise<void> {
  const { gateway, key } = await scene(secondMs)
  const ended = await clients[client]?.(`${gateway.origin}/v1/pets`, key, secondMs)
  expect(ended).toEqual(times(loops, () => 429))
  // The first ones fall into the grace period; a minute has one more for each loop, at 31 s: 48 at most, and 90 ban.
  const strikes = await gateway.metric('tollgate_strikes_total')
  expect(strikes).toBeGreaterThanOrEqual(loops * (retries - 1))
  expect(strikes).toBeLessThanOrEqual(loops * (retries + 1))
  expect(await gateway.metric('tollgate_bans_total')).toBe(0)
}

/** Again with longer seconds where the machine is too busy for so many requests in such a minute. */
export async function twoASecondAreBanned(secondMs: number): Promise<void> {
  const { gateway, key } = await scene(secondMs)
  const startMs = performance.now()
  const passedMs = () => performance.now() - startMs
  let [sent, code] = [0, '' as string | undefined]
  while (code !== 'api_key_banned' && passedMs() < 60 * secondMs) {
    await sleep((secondMs / 2) * sent - passedMs())
    code = (await gateway.call(key)).code
    sent++
  }
  if (code !== 'api_key_banned' && sent < 110) return twoASecondAreBanned(2 * secondMs)
  expect(code).toBe('api_key_banned')
}
