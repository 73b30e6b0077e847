import { describe, expect, it } from 'vitest'
import { parseRedisUrl } from '../../src/config/redis.ts'
import { words } from '../support/words.ts'

const nobody = { username: undefined, password: undefined }
const plain = { host: 'cache', port: 6379, db: 0, ...nobody, tls: false }

describe('the URL of a Redis server', () => {
  it.each([
    ['redis://cache', plain],
    ['redis://cache/', plain],
    ['redis://cache:7000/3', { ...plain, port: 7000, db: 3 }],
    ['rediss://cache', { ...plain, tls: true }],
    ['rediss://[::1]:6380', { ...plain, host: '::1', port: 6380, tls: true }],
    ['redis://:secret@cache', { ...plain, password: 'secret' }],
    ['redis://gate:secret@cache', { ...plain, username: 'gate', password: 'secret' }],
    [
      'redis://gate%3Away:p%40ss%20%2F%3A%25%23%3F@cache/1',
      { ...plain, username: 'gate:way', password: 'p@ss /:%#?', db: 1 },
    ],
    ['redis://gate:se@cret@cache', { ...plain, username: 'gate', password: 'se@cret' }],
  ])('%s is taken apart', (text, expected) => {
    expect(parseRedisUrl(text)).toEqual(expected)
  })

  const none = String.raw`cache:6379 http://cache REDIS://cache redis:cache redis:// redis:///0
    redis://cache:0 redis://cache:65536 redis://cache:port redis://cache/name redis://cache/123456
    redis://cache/0/1 redis://cache?tls=true redis://cache/0? redis://cache# redis://gate@cache
    redis://gate:50%@cache redis://gate:%ff@cache redis://gate:sec/ret@cache
    redis://gate:sec#ret@cache redis://a%20b redis://cache\x`
  it.each(['', 'redis://cache name', 'redis://cache\n', ...words(none)])('%j is none', (text) => {
    expect(parseRedisUrl(text)).toBeUndefined()
  })
})
