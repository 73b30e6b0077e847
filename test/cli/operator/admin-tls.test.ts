/** Commands that ask an admin listener over TLS: the certificate that they show, and whom they believe. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { topCommand } from '../../../src/cli/operator/top.ts'
import { typed } from '../../support/command-line.ts'
import { startTestGateway } from '../../support/gateway.ts'
import { listening } from '../../support/listening.ts'
import { temporaryFile } from '../../support/processes.ts'
import { makeCertificates, type Certificate } from '../../support/redis-tls.ts'

const certificates = makeCertificates()
const { ca, server, client, foreign, misnamed } = certificates
const shows = ({ cert, key }: Certificate) => ({
  TOLLGATE_ADMIN_CERT: cert,
  TOLLGATE_ADMIN_KEY: key,
})
const believes = { TOLLGATE_ADMIN_CA: ca }
const known = { ...believes, ...shows(client) }

const tls = `{ cert: ${server.cert}, key: ${server.key}, clientCa: ${ca} }`
const gateway = await startTestGateway({
  upstreams: ['http://127.0.0.1:9'],
  blocks: { admin: `admin: { listen: "127.0.0.1:0", tls: ${tls} }` },
})
const admin = `https://127.0.0.1:${gateway.adminPort}`

const asked = (env: Record<string, string>, at = admin, command = 'bans list') =>
  typed([...command.split(' '), '--admin', at], { env })

describe('a command that asks an admin listener over TLS', () => {
  it.each([
    ['bans list', 0],
    ['usage', 0],
    ['usage --csv', 0],
    ['config', 0],
    ['keys list', 0],
    ['explain no-such-request', 1],
    ['reload --dry-run', 0],
  ])('is let in by its certificate: %s', async (command, expected) => {
    const { code, stderr } = await asked(known, admin, command)
    expect(stderr).not.toMatch(/unreachable|certificate|TOLLGATE_/)
    expect(code).toBe(expected)
  })

  it('follows what happens, second by second', async () => {
    const left = new AbortController()
    const lines: string[] = []
    const output = {
      args: [],
      env: known,
      screen: undefined,
      unread: left.signal,
      print: (line: string) => void (lines.push(line) === 2 && left.abort()),
      complain: (line: string) => lines.push(line),
    }
    await topCommand(output, { admin })
    expect(lines.map((line) => line.split('\t').length)).toEqual([9, 9])
  })

  const own = (cert?: string, key?: string): Record<string, string> => ({
    ...(cert !== undefined && { TOLLGATE_ADMIN_CERT: cert }),
    ...(key !== undefined && { TOLLGATE_ADMIN_KEY: key }),
  })
  const [CERT, KEY] = ['TOLLGATE_ADMIN_CERT', 'TOLLGATE_ADMIN_KEY']
  const none = temporaryFile('ca.pem', 'none')
  const noFile = 'TOLLGATE_ADMIN_CA: /nowhere.pem cannot be read (ENOENT)'
  it.each<[string, Record<string, string>, string, string, number]>([
    ['shows none', believes, 'client certificate', CERT, 1],
    ['shows one of others', { ...believes, ...shows(foreign) }, 'client cert', CERT, 1],
    ['trusts nobody', shows(client), 'not trusted', 'TOLLGATE_ADMIN_CA', 1],
    ['trusts others', { TOLLGATE_ADMIN_CA: foreign.ca }, 'not trusted', 'TOLLGATE_ADMIN_CA', 1],
    ['has no key', own(client.cert), `${CERT} is set without ${KEY}`, `set ${KEY}`, 2],
    [
      'has the key of another certificate',
      { ...known, ...own(undefined, misnamed.key) },
      `${KEY}: ${misnamed.key} cannot be used`,
      `PEM private key of ${CERT}`,
      2,
    ],
    ['trusts what is none', { TOLLGATE_ADMIN_CA: none }, 'ca.pem cannot be used', 'authorities', 2],
    [
      'trusts no file',
      { TOLLGATE_ADMIN_CA: '/nowhere.pem' },
      noFile,
      'its name and permissions',
      2,
    ],
  ])('says what helps where it %s', async (_, env, ...[fault, remedy, expected]) => {
    const { code, stdout, stderr } = await asked(env)
    expect(stderr).toContain(fault)
    expect(stderr.split('  remedy  ')[1]).toContain(remedy)
    expect([code, stdout]).toEqual([expected, ''])
  })

  it('says what helps where the other side is not as it was named', async () => {
    const http = `http://127.0.0.1:${gateway.adminPort}`
    expect((await asked(known, http)).stderr).toContain('if it has admin.tls, write https://')
    expect((await asked(known, admin.replace('127.0.0.1', 'localhost'))).stderr).toContain(
      'ERR_TLS_CERT_ALTNAME_INVALID',
    )
    const port = await listening(createServer())
    expect((await asked(known, `https://127.0.0.1:${port}`)).stderr).toContain('it speaks no TLS')
  })

  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'names the certificate where a proxy wants one and ends the handshake (%s)',
    async (maxVersion) => {
      const [cert, key] = [readFileSync(server.cert), readFileSync(server.key)]
      const options = { cert, key, ca: readFileSync(ca), requestCert: true, maxVersion }
      const port = await listening(createTlsServer(options))
      const { code, stderr } = await asked(believes, `https://127.0.0.1:${port}`)
      expect([code, stderr]).toEqual([1, expect.stringContaining('TOLLGATE_ADMIN_CERT')])
    },
  )

  it('reads no certificate for a listener without TLS', async () => {
    const { code } = await asked({ TOLLGATE_ADMIN_CERT: '/nowhere.pem' }, 'http://127.0.0.1:1')
    expect(code).toBe(1)
  })
})

it('a token never follows a redirect', async () => {
  const seen: unknown[] = []
  const elsewhere = createServer((request, response) => {
    seen.push(request.headers)
    response.end('{}')
  })
  const location = `http://127.0.0.1:${await listening(elsewhere)}/`
  const redirecting = createServer((_, response) => response.writeHead(302, { location }).end())
  const at = `http://127.0.0.1:${await listening(redirecting)}`
  for (const command of ['bans list', 'usage --csv', 'top']) {
    const { code, stderr } = await asked({ TOLLGATE_ADMIN_TOKEN: 'secret' }, at, command)
    expect([code, stderr]).toEqual([1, expect.stringContaining('answers 302')])
  }
  expect(seen).toEqual([])
})
