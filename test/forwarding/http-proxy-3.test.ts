/** The check that http-proxy-3 still does what the parts that take its place were written against. */
import type * as library from 'http-proxy-3'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createHttpProxyEngine } from '../../src/forwarding/http-proxy-3/forwarder.ts'
import { keepStreamPass } from '../../src/forwarding/http-proxy-3/http-proxy.ts'
import { createUpgradeEngine } from '../../src/forwarding/upgrader.ts'

const added = vi.hoisted(() => ({ pass: false }))
vi.mock('http-proxy-3', async (original) => {
  const real = await original<typeof library>()
  return {
    ...real,
    createProxyServer: (options: library.ServerOptions) => {
      const proxy = real.createProxyServer(options)
      if (added.pass) proxy.before('ws', 'stream', function limitFrames() {})
      return proxy
    },
  }
})
afterEach(() => void (added.pass = false))

const options = {
  connections: 1,
  connectionUses: 1,
  connectionAgeMs: 1,
  timeouts: { connectMs: 1, responseMs: 1, idleMs: 1 },
  onSurplus: () => {},
}
const passes = (names: string) => names.split(' ').map((name) => ({ name }))
const web = 'deleteLength timeout XHeaders stream'
const ws = 'checkMethodAndHeader XHeaders stream'

describe('http-proxy-3', () => {
  it('as it is installed can be used', async () => {
    await createHttpProxyEngine(options).close()
    await createUpgradeEngine(options, 1_000).close()
  })

  it('with a pass more ends the start, naming what was found and what was expected', () => {
    added.pass = true
    const message =
      'this http-proxy-3 cannot be used: its wsPasses are "checkMethodAndHeader, XHeaders, limitFrames, stream" instead of "checkMethodAndHeader, XHeaders, stream"'
    expect(() => createHttpProxyEngine(options)).toThrow(message)
    expect(() => createUpgradeEngine(options, 1_000)).toThrow(message)
  })

  it.each([
    ['a pass less', 'deleteLength timeout stream', ws],
    ['another order', 'timeout deleteLength XHeaders stream', ws],
    ['another name', web, 'checkMethodAndHeader XHeaders pump'],
    ['a pass behind the stream', web, `${ws} count`],
  ])('with %s is refused', (_, webPasses, wsPasses) => {
    const server = { webPasses: passes(webPasses), wsPasses: passes(wsPasses) }
    expect(() => keepStreamPass(server)).toThrow('cannot be used')
  })

  it('without such lists is refused', () => {
    expect(() => keepStreamPass({})).toThrow('its webPasses are ""')
  })

  it('is left with the pass that streams', () => {
    const server = { webPasses: passes(web), wsPasses: passes(ws) }
    keepStreamPass(server)
    expect(server).toEqual({ webPasses: passes('stream'), wsPasses: passes('stream') })
  })
})
