/** Who may come in, and who goes for it. */
import { describe, expect, it } from 'vitest'
import {
  ConnectionLimits,
  roomForConnections,
  type Guest,
} from '../../src/listeners/connection-limits.ts'
import { parseConfigText } from '../../src/clients/load.ts'
import { configText } from '../support/gateway.ts'

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
    { configured: 30_000, openFiles: 20_000, ofOne: 500, isFar: false },
    { configured: 30_000, openFiles: 1_024, ofOne: 208, isFar: true },
  ])('is $ofOne for one address, and far from the $configured asked for: $isFar', (row) => {
    const room = roomForConnections(configured(1, row.configured), row.openFiles)
    expect(room.connectionsPerAddress).toBe(row.ofOne)
    expect(room.isFar).toBe(row.isFar)
  })
})

describe('connections', () => {
  const closed: string[] = []
  const guest = (name: string, addressKey: string | undefined, uses: boolean[] = []): Guest => ({
    addressKey,
    wasIdle: () => !(uses.shift() ?? false),
    close: () => void closed.push(name),
  })
  const limits = (connections: number, connectionsPerAddress: number, openFiles?: number) => {
    closed.length = 0
    const room = { connections, connectionsPerAddress, openFiles, isFar: false }
    return new ConnectionLimits(room, { holds: (key) => key === 'abuser' })
  }

  it('are not taken from who is penalised', () => {
    const bounded = limits(100, 2)
    expect(bounded.enter(guest('first', 'abuser'))).toBe('abuse')
    expect(bounded.enter(guest('second', 'a'))).toBeUndefined()
  })

  it('are bounded per address, but for trusted proxies, and count until they leave', () => {
    const bounded = limits(100, 2)
    const first = guest('first', 'a')
    expect(
      [first, guest('second', 'a'), guest('other', 'b')].map((one) => bounded.enter(one)),
    ).toEqual([undefined, undefined, undefined])
    expect(bounded.enter(guest('third', 'a'))).toBe('address')
    for (let proxied = 0; proxied < 10; proxied++)
      expect(bounded.enter(guest('proxied', undefined))).toBeUndefined()
    bounded.leave(first)
    bounded.leave(first)
    expect(bounded.enter(guest('third', 'a'))).toBeUndefined()
    expect(bounded.enter(guest('fourth', 'a'))).toBe('address')
    expect(bounded.size).toBe(13)
    expect(closed).toEqual([])
  })

  it('that are not used give way to new ones, the oldest first; one in use does not', () => {
    const bounded = limits(3, 10)
    bounded.enter(guest('busy', 'a', [true, true, true]))
    bounded.enter(guest('used a moment ago', 'b', [true, false]))
    bounded.enter(guest('idle', 'c'))
    for (const name of ['new 1', 'new 2', 'new 3'])
      expect(bounded.enter(guest(name, 'd'))).toBeUndefined()
    expect(closed).toEqual(['idle', 'used a moment ago', 'new 1'])
    expect(bounded.size).toBe(3)
  })

  it.each([
    [undefined, 'total'],
    [300, 'descriptors'],
  ])('are turned away where all are in use, with %s files: %s', (openFiles, reason) => {
    const bounded = limits(2, 10, openFiles)
    for (const name of ['one', 'two']) bounded.enter({ ...guest(name, 'a'), wasIdle: () => false })
    expect(bounded.enter(guest('three', 'b'))).toBe(reason)
    expect(closed).toEqual([])
  })

  it('are not all looked at for each that is turned away', () => {
    const bounded = limits(5_000, 5_000)
    let looks = 0
    for (let at = 0; at < 5_000; at++)
      bounded.enter({ addressKey: 'a', wasIdle: () => ++looks > 1_000, close: () => undefined })
    let refused = 0
    while (bounded.enter(guest('new', 'b')) !== undefined) refused++
    expect(looks).toBe(1_001)
    expect(refused).toBe(3)
  })
})
