import { describe, expect, it, vi } from 'vitest'
import { createEmbeddedAuthority } from '../../src/state/memory/authority.ts'
import type { TakeRequest } from '../../src/state/quota.ts'
import { controlledMemoryAuthority, START_MS } from '../support/controlled-authority.ts'
import { createIpcAuthority } from '../../src/state/supervisor/home.ts'
import { authorityContract, call } from './authority.ts'
import { loop } from './homes.ts'

authorityContract('memory', (time) => controlledMemoryAuthority(time, true), { losesData: true })

authorityContract('the supervisor', (time) => {
  const authority = createEmbeddedAuthority({ clock: { epochMs: () => time.ms } })
  const take = (request: TakeRequest) => authority.take(request)
  const calls = loop({ take })
  return createIpcAuthority({ calls, onNotice: () => undefined })
})

describe('the memory of the embedded authority', () => {
  it('forgets clients an hour after their day', () => {
    const time = { ms: START_MS }
    const authority = createEmbeddedAuthority({ clock: { epochMs: () => time.ms } })
    for (let n = 0; n < 100; n++) void authority.take(call(`client-${n}`))
    expect(authority.size).toBe(100)
    time.ms += 86_400_000 + 3_600_000
    void authority.take(call('next'))
    expect(authority.size).toBe(1)
  })

  it('keeps a bounded number of clients, of those the busy ones, and warns that it forgets', () => {
    const onForgotten = vi.fn<() => void>()
    const clock = { epochMs: () => START_MS }
    const authority = createEmbeddedAuthority({ clock, maxClients: 50, onForgotten })
    for (let n = 0; n < 49; n++) void authority.take(call(`early-${n}`))
    void authority.take(call('busy'))
    expect(authority.unsaved).toBeUndefined()
    for (let n = 0; n < 1000; n++) {
      void authority.take(call(`passer-by-${n}`))
      void authority.take(call('busy', n + 2))
    }
    expect(authority.size).toBeLessThanOrEqual(51)
    expect(onForgotten).toHaveBeenCalledOnce()
    expect(authority.unsaved?.warning).toMatch(
      /^more than 50 clients have come: .*; set store\.file/,
    )
    expect(authority.take(call('busy', 5000))).toMatchObject({ day: { held: 1 } })
    expect(authority.take(call('busy', 4999))).toMatchObject({ status: 'stale' })
  })
})
