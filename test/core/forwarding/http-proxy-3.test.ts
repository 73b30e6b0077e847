/** The check that http-proxy-3 still does what the parts that take its place were written against. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createHttpProxyEngine } from '../../../src/core/forwarding/http-proxy-3/engine.ts'
import { keepStreamPass } from '../../../src/core/forwarding/http-proxy-3/http-proxy.ts'
import { UpgradeEngine } from '../../../src/core/forwarding/upgrader.ts'

const require = createRequire(import.meta.url)
const lib = dirname(require.resolve('http-proxy-3'))
/** The library's own list of what it does with a request, by name. */
const { WEB_PASSES: webPasses } = require(join(lib, 'http-proxy/passes/web-incoming.js')) as {
  WEB_PASSES: Record<string, () => void>
}

const options = {
  connections: 1,
  connectionUses: 1,
  connectionAgeMs: 1,
  timeouts: { connectMs: 1, responseMs: 1, idleMs: 1 },
  onSurplus: () => {},
}
const passes = (names: string) => names.split(' ').map((name) => ({ name }))
const web = 'deleteLength timeout XHeaders stream'

describe('http-proxy-3', () => {
  it('as it is installed can be used', () => {
    createHttpProxyEngine(options).close()
    new UpgradeEngine(options, 1_000).close()
  })

  it('with a pass more ends the start, naming what was found and what was expected', () => {
    webPasses['limitBytes'] = function limitBytes() {}
    const message =
      'this http-proxy-3 cannot be used: its webPasses are "deleteLength, timeout, XHeaders, stream, limitBytes" instead of "deleteLength, timeout, XHeaders, stream"'
    try {
      expect(() => createHttpProxyEngine(options)).toThrow(message)
      expect(() => new UpgradeEngine(options, 1_000)).toThrow(message)
    } finally {
      delete webPasses['limitBytes']
    }
  })

  it('with lists in another order, or without them, is refused', () => {
    const server = { webPasses: passes('timeout deleteLength XHeaders stream') }
    expect(() => keepStreamPass(server)).toThrow('cannot be used')
    expect(() => keepStreamPass({})).toThrow('its webPasses are ""')
  })

  it('is left with the pass that streams', () => {
    const server = { webPasses: passes(web) }
    keepStreamPass(server)
    expect(server).toEqual({ webPasses: passes('stream') })
  })
})
