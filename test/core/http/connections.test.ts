/** Who may come in, and who goes for it. */
import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { Connections, type ClientConnection } from '../../../src/core/http/connections.ts'
import { roomForConnections, type ConnectionBound } from '../../../src/core/http/connection-room.ts'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { configText } from '../../support/gateway.ts'

type Use = ReturnType<ClientConnection['look']>
const configured = (urls: number, connections: number) =>
  parseConfigText(
    configText({
      upstreams: Array.from({ length: urls }, (_, at) => `http://127.0.0.1:${3_000 + at}`),
      blocks: { server: `server: { limits: { connections: ${connections} } }` },
    }),
    { file: 'x', env: {} },
  )

describe('the room for connections', () => {
  it.each([
    { urls: 1, configured: 20_000, openFiles: undefined, room: 20_000, isBound: false },
    { urls: 1, configured: 20_000, openFiles: 1_048_576, room: 20_000, isBound: false },
    { urls: 1, configured: 800, openFiles: 1_024, room: 800, isBound: false },
    { urls: 1, configured: 20_000, openFiles: 1_024, room: 1_024 - 128 - 64, isBound: true },
    { urls: 3, configured: 20_000, openFiles: 1_024, room: 1_024 - 3 * 128 - 64, isBound: true },
    { urls: 9, configured: 20_000, openFiles: 1_024, room: 1_024 / 2 - 64, isBound: true },
    { urls: 1, configured: 20_000, openFiles: 300, room: 300 - 128 - 64, isBound: true },
    { urls: 1, configured: 20_000, openFiles: 100, room: 1, isBound: true },
  ])('is $room of $configured with $openFiles files and $urls backends', (row) => {
    const room = roomForConnections(configured(row.urls, row.configured), row.openFiles)
    expect(room.connections).toBe(row.room)
    expect(room.openFiles).toBe(row.isBound ? row.openFiles : undefined)
  })

  it.each([
    { configured: 20_000, openFiles: 1_048_576, ofOne: 500, isFar: false },
    { configured: 20_000, openFiles: 4_096, ofOne: 500, isFar: false },
    { configured: 20_000, openFiles: 1_024, ofOne: (1_024 - 128 - 64) / 4, isFar: false },
    { configured: 20_000, openFiles: 100, ofOne: 1, isFar: false },
    { configured: 1_000, openFiles: 1_024, ofOne: 208, isFar: false },
    { configured: 30_000, openFiles: 1_024, ofOne: 208, isFar: true },
  ])('is $ofOne for one address, and far from the $configured asked for: $isFar', (row) => {
    const room = roomForConnections(configured(1, row.configured), row.openFiles)
    expect(room.connectionsPerAddress).toBe(row.ofOne)
    expect(room.isFar).toBe(row.isFar)
  })
})

describe('connections', () => {
  const closed: string[] = []
  const displaced: ConnectionBound[] = []
  let nowMs = 0
  const guest = (name: string, addressKey: string | undefined, uses: Use[] = []) => {
    const counted: Partial<ClientConnection> = {
      addressKey,
      sinceMs: nowMs,
      isProven: false,
      look: () => uses.shift() ?? 'idle',
      transport: {
        destroy: () => void closed.push(name),
        resetAndDestroy: () => void closed.push(`${name}, reset`),
      } as unknown as Socket,
    }
    return counted as ClientConnection
  }
  const limits = (connections: number, connectionsPerAddress: number, openFiles?: number) => {
    closed.length = 0
    displaced.length = 0
    nowMs = 0
    const room = { connections, connectionsPerAddress, openFiles, isFar: false }
    return new Connections(room, (bound) => displaced.push(bound))
  }
  const proven = (bounded: Connections, one: ClientConnection): ClientConnection => {
    expect(bounded.enter(one)).toBeUndefined()
    bounded.prove(one)
    return one
  }
  const always = (use: Use): Use[] => Array<Use>(10_000).fill(use)

  it('are bounded per address, but for trusted proxies, and count until they leave', () => {
    const bounded = limits(100, 2)
    const first = guest('first', 'a')
    for (const one of [first, guest('second', 'a'), guest('other', 'b')])
      expect(bounded.enter(one)).toBeUndefined()
    for (let proxied = 0; proxied < 10; proxied++)
      expect(bounded.enter(guest('proxied', undefined))).toBeUndefined()
    bounded.leave(first)
    bounded.leave(first)
    expect(bounded.enter(guest('third', 'a'))).toBeUndefined()
    expect(closed).toEqual([])
    expect(bounded.enter(guest('fourth', 'a'))).toBeUndefined()
    expect(closed).toEqual(['second, reset'])
    expect(bounded.size).toBe(13)
  })

  it('that are not used give way where there is no room at all, in the same order', () => {
    const bounded = limits(4, 10)
    proven(bounded, guest('busy', 'a', always('busy')))
    proven(bounded, guest('used a moment ago', 'b', ['recent']))
    proven(bounded, guest('idle', 'c'))
    bounded.enter(guest('silent', 'd', always('busy')))
    nowMs = 5_000
    for (const name of ['new 1', 'new 2', 'new 3'])
      proven(bounded, guest(name, 'd', always('busy')))
    expect(closed).toEqual(['silent, reset', 'idle', 'used a moment ago'])
    expect(displaced).toEqual(['total', 'total', 'total'])
  })

  it('with a valid key that are asked now and then, all of them, keep nobody out', () => {
    const bounded = limits(100, 5)
    for (let at = 0; at < 5; at++) proven(bounded, guest(`${at}`, 'a', always('recent')))
    for (let at = 0; at < 50; at++)
      expect(bounded.enter(guest('neighbour', 'a', always('busy')))).toBeUndefined()
  })

  it('have a second to show a key, also where all others of the address have shown one and come again at once', () => {
    const bounded = limits(100, 40)
    for (let at = 0; at < 40; at++) proven(bounded, guest('idle', 'a'))
    const neighbour = guest('neighbour', 'a')
    bounded.enter(neighbour)
    for (let at = 0; at < 200; at++) {
      nowMs += 4
      proven(bounded, guest('idle', 'a'))
    }
    expect(closed).not.toContain('neighbour')
    nowMs = 1_000
    bounded.enter(guest('next', 'a'))
    expect(closed.at(-1)).toBe('neighbour, reset')
  })

  it('without a key, however fast they come, take no idle connection from who has one', () => {
    const bounded = limits(1_000, 40)
    for (let at = 0; at < 10; at++) proven(bounded, guest('keyed', 'a'))
    for (let at = 0; at < 500; at++) bounded.enter(guest('silent', 'a'))
    expect(closed).not.toContain('keyed')
  })

  it('of an address that has none any more are forgotten, also if they show a key too late', () => {
    const bounded = limits(100, 1)
    const [first, second] = [guest('first', 'a'), guest('second', 'a')]
    bounded.enter(first)
    bounded.enter(second)
    bounded.prove(first)
    bounded.leave(first)
    expect(bounded.size).toBe(1)
    bounded.prove(second)
    bounded.leave(second)
    expect(bounded.size).toBe(0)
    expect(bounded.enter(first)).toBeUndefined()
  })

  it.each([
    [undefined, 'total'],
    [300, 'descriptors'],
  ])('are turned away where all are in use, with %s files: %s', (openFiles, reason) => {
    const bounded = limits(2, 10, openFiles)
    for (const name of ['one', 'two']) proven(bounded, guest(name, 'a', always('busy')))
    expect(bounded.enter(guest('three', 'b'))).toBe(reason)
    expect(closed).toEqual([])
  })

  it('are not all looked at for each that is turned away', () => {
    const bounded = limits(5_000, 5_000)
    let looks = 0
    const look = (): Use => (++looks > 3_000 ? 'idle' : 'busy')
    for (let at = 0; at < 5_000; at++) proven(bounded, Object.assign(guest('busy', 'a'), { look }))
    let refused = 0
    while (bounded.enter(guest('new', 'b')) !== undefined) refused++
    expect(looks).toBe(3_001)
    expect(refused).toBe(2)
  })
})
