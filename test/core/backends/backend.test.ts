import { describe, expect, it } from 'vitest'
import { backendOf } from '../../support/balancer.ts'

describe('a backend', () => {
  it.each([
    ['http://a.example', ['http://a.example', 'a.example', 80, 'a.example', undefined]],
    ['https://A.example:443', ['https://a.example', 'a.example', 443, 'a.example', 'a.example']],
    [
      'https://a.example:8443',
      ['https://a.example:8443', 'a.example', 8443, 'a.example:8443', 'a.example'],
    ],
    [
      'http://127.0.0.1:3000/',
      ['http://127.0.0.1:3000', '127.0.0.1', 3000, '127.0.0.1:3000', undefined],
    ],
    ['https://[::1]:9', ['https://[::1]:9', '::1', 9, '[::1]:9', '']],
  ])('%s is read once', (url, expected) => {
    const { name, host, port, hostHeader, tls } = backendOf(url)
    expect(tls?.rejectUnauthorized ?? true).toBe(true)
    expect([name, host, port, hostHeader, tls?.servername]).toEqual(expected)
  })

  it('has the server name of the configuration where one is given', () => {
    const backend = backendOf('https://10.0.0.1', { tls: { servername: 'api.internal' } })
    expect(backend.tls?.servername).toBe('api.internal')
  })
})
