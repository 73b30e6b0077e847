/** The retry loops that docs/clients.md shows, taken from the page and run as they stand against a real gateway: a banned key waits and gets through, unless the wait is long. */
import { execFile } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, it } from 'vitest'
import { askAdmin } from '../support/admin-client.ts'
import { ensurePackage } from '../support/debian-package.ts'
import { temporaryFolder } from '../support/processes.ts'
import { clientsBlock, configFile, eventually, gatewayHere, startRawBackend } from './gateways.ts'
import type { Gateway } from './gateways.ts'

/** Debian's own, which sees Debian's packages; another on PATH may not. */
const PYTHON = '/usr/bin/python3'
const guide = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8')
const folder = temporaryFolder()
// So that the examples find the libraries that they import.
symlinkSync(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))

/** The block of the language that holds the text, and it alone. */
function example(language: string, holding: string): string {
  const blocks = Array.from(guide.matchAll(/^```(\w+)\n(.*?)^```/gms))
  const found = blocks.filter(([, name, code = '']) => name === language && code.includes(holding))
  expect(found).toHaveLength(1)
  return found[0]?.[2] ?? ''
}

/** What runs each loop once, and prints the status that it ended in. */
const callers: Record<string, () => Promise<string[]>> = {
  fetch: () => typescript('fetch', 'callApi(url, {headers})', 'export async function callApi'),
  got: () => typescript('got', 'api(url)', "from 'got'"),
  ky: () => typescript('ky', 'api(url)', "from 'ky'"),
  requests: () => {
    ensurePackage('python3-requests', { probe: [PYTHON, '-c', 'import requests'] })
    const end = 'import sys\nprint(make_session().get(sys.argv[1]).status_code)\n'
    return Promise.resolve([PYTHON, '-c', `${example('python', 'import requests')}\n${end}`])
  },
}

function typescript(name: string, call: string, holding: string): Promise<string[]> {
  const file = join(folder, `${name}.ts`)
  const start =
    'const headers = {authorization: `Bearer ${process.env.API_KEY}`}; const url = process.argv[2]!'
  const end = `${start}\n${call}.catch((error: any) => error.response)
  .then(({status, statusCode}: any) => console.log(status ?? statusCode))`
  writeFileSync(file, `${example('ts', holding)}\n${end}\n`)
  return Promise.resolve([process.execPath, '--disable-warning=ExperimentalWarning', file])
}

let gateway: Gateway

async function ban(client: string, length: string): Promise<void> {
  const banned = { for: length, reason: 'to be waited for' }
  const answer = await askAdmin(gateway.adminOrigin, `PUT /api/bans/${client}-1`, banned)
  expect(answer.status).toBe(200)
}

/** The status that the loop ends in, with the key of a client. */
async function endOf([command = '', ...args]: string[], client: string): Promise<string> {
  const env = { PATH: process.env['PATH'], API_KEY: `tg_${client}` }
  const url = `${gateway.origin}/v1/pets`
  const { stdout } = await promisify(execFile)(command, [...args, url], { env, timeout: 60_000 })
  return stdout.trim()
}

const statusesOf = (client: string): string[] =>
  gateway
    .logged('access')
    .filter((line) => line['client'] === client)
    .map(({ status }) => String(status))

beforeAll(async () => {
  const ids = Object.keys(callers).flatMap((id) => [id, `${id}-for-long`])
  const clients = ids.map((id) => ({ id, keys: [`tg_${id}`], perMinute: 500 }))
  const { url } = await startRawBackend()
  gateway = await gatewayHere(configFile(url, { clients: clientsBlock(clients) }))
})

it.concurrent.each(Object.entries(callers))(
  'the loop of the guide with %s waits as it is told to, and gets through at the second try',
  async (client, prepare) => {
    const caller = await prepare()
    let logged: string[] = []
    // One that starts later than its ban ends has shown nothing.
    for (let seconds = 3; logged.at(-2) !== '429'; seconds *= 2) {
      await ban(client, `${seconds}s`)
      const before = logged.length
      expect(await endOf(caller, client)).toBe('200')
      await eventually('its requests in the log', () => {
        logged = statusesOf(client)
        return logged.length > before && logged.at(-1) === '200'
      })
      expect(['200', '429,200']).toContain(logged.slice(before).join())
    }
  },
)

it.concurrent.each(Object.entries(callers))(
  'the loop of the guide with %s does not wait for an hour: it ends with the 429 of its only request',
  async (name, prepare) => {
    const client = `${name}-for-long`
    await ban(client, '1h')
    expect(await endOf(await prepare(), client)).toBe('429')
    await eventually('its request in the log', () => statusesOf(client).length > 0)
    expect(statusesOf(client)).toEqual(['429'])
  },
)

it('the example in Go is of one piece', () => {
  const code = example('go', 'func callAPI')
  for (const [open, close] of ['{}', '()', '[]'])
    expect(code.split(open ?? '').length).toBe(code.split(close ?? '').length)
})
