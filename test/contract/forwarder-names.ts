/** Backends given by name: each new connection asks for the addresses anew, and tries them all. */
import dns from 'node:dns'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { answer, startRawBackend } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'
import type { Stage } from './forwarding.ts'

const name = 'api.internal'
const realLookup = dns.lookup as (...args: unknown[]) => void

/** What the resolver of the system, which Node.js asks through `dns.lookup`, knows of the name from now on. */
function resolveTo(addresses: () => readonly string[]): () => number {
  let asked = 0
  const lookup = (...args: unknown[]): void => {
    if (args[0] !== name) return realLookup(...args)
    asked++
    const told = args.at(-1) as (error: null, found: dns.LookupAddress[]) => void
    const found = addresses().map((address) => ({ address, family: 4 }))
    setImmediate(() => told(null, found))
  }
  vi.spyOn(dns, 'lookup').mockImplementation(lookup)
  return () => asked
}

export function describeNames({ front: startFront }: Stage): void {
  describe('a backend given by its name', () => {
    afterEach(() => void vi.restoreAllMocks())

    it('is followed to its new address by every new connection', async () => {
      const port = await freePort()
      const at = (host: string) => startRawBackend({ host, port, respond: () => answer(200, host) })
      await Promise.all(['127.0.0.1', '127.0.0.2'].map(at))
      let address = '127.0.0.1'
      const asked = resolveTo(() => [address])
      const front = startFront([`http://${name}:${port}`], { connectionUses: 2 })
      const bodies: string[] = []
      for (let count = 0; count < 6; count++) {
        bodies.push((await front.get('/')).body)
        // The connection that is kept stays where it is until it retires.
        address = '127.0.0.2'
      }
      const [before, after] = [Array(2).fill('127.0.0.1'), Array(4).fill('127.0.0.2')]
      expect(bodies).toEqual([...before, ...after])
      expect(asked()).toBe(3)
    })

    it('is reached at another of its addresses where nobody listens at the first', async () => {
      const backend = await startRawBackend()
      resolveTo(() => ['127.0.0.3', '127.0.0.1'])
      const front = startFront([`http://${name}:${backend.port}`])
      expect(await front.get('/')).toMatchObject({ status: 200, body: 'ok' })
    })
  })
}
