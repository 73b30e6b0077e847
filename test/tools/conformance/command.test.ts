import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import tls from 'node:tls'
import { afterAll, describe, expect, it } from 'vitest'
import type { Report } from '../../../src/tools/conformance/suite.ts'
import { typed } from '../../support/command-line.ts'
import { startTestGateway } from '../../support/gateway.ts'
import { temporaryFolder } from '../../support/processes.ts'
import { makeCertificates } from '../../support/redis-tls.ts'
import { backend, clients, commandFor, limits } from './tollgate.ts'

const certificates = makeCertificates()
const trusted = tls.getCACertificates('default')
const responses = ['on-401', 'same-401', 'error-body', 'request-id', 'lifecycle']

const upstreams = [(await backend()).url]
const { cert, key } = certificates.server
const server = `server: { listen: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key} } }`
const plain = await startTestGateway({ upstreams, blocks: { clients } })
const overTls = await startTestGateway({ upstreams, blocks: { clients, server } })
tls.setDefaultCACertificates([...trusted, readFileSync(certificates.ca, 'utf8')])
afterAll(() => tls.setDefaultCACertificates(trusted))

describe('tollgate conformance', () => {
  it('asks by HTTPS; in a pipe each check is a line, and its page needs nothing else', async () => {
    const html = join(temporaryFolder(), 'report.html')
    const origin = `https://127.0.0.1:${overTls.port}`
    const args = commandFor(origin, '--only', 'responses', '--html', html)
    const { code, stdout, stderr } = await typed(args)
    const rows = stdout.trimEnd().split('\n')
    expect(rows.map((row) => row.split('\t').slice(0, 2))).toEqual([
      ['isolation', 'holds'],
      ...responses.map((name) => [name, name === 'lifecycle' ? 'not claimed' : 'holds']),
    ])
    expect([code, stderr]).toEqual([0, expect.stringContaining('up to three minutes')])
    const page = readFileSync(html, 'utf8')
    expect(page).toContain("default-src 'none'")
    expect(page).not.toMatch(/<script|src=|href=|@import/)
    expect(page.match(/<td [^>]*data-head="Verdict"/g)).toHaveLength(rows.length)
    expect(page.length).toBeLessThan(20_000)
  })

  it('is JSON where it is asked for: framing is refused as it is to be', async () => {
    const { code, stdout } = await typed(commandFor(plain.origin, '--only', 'framing', '--json'))
    const { checks, ...report } = JSON.parse(stdout) as Report
    expect(checks.filter(({ verdict }) => verdict !== 'holds')).toEqual([])
    expect(checks).toHaveLength(11)
    expect(report).toMatchObject({ target: `${plain.origin}/v1/pets`, limits })
    expect([code, report.requests > 5]).toEqual([0, true])
  })

  it('tells what it has found even where its page cannot be written', async () => {
    const html = ['--html', '/nowhere/report.html']
    const args = commandFor(plain.origin, '--only', 'isolation', ...html)
    const { code, stdout, stderr } = await typed(args)
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^isolation\tholds/)])
    expect(stderr).toContain('cannot write /nowhere/report.html')
  })
})
