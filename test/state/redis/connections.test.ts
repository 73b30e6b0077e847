import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'

it('String.prototype is fast where ioredis is loaded, whose class that extends String made it slow, and stays so', () => {
  const script = `
    const { slotOf } = await import('${new URL('../../../src/state/redis/connections.ts', import.meta.url).href}')
    slotOf('loads it')
    class Another extends String {}
    console.log(%HasFastProperties(String.prototype))
  `
  const flags = ['--allow-natives-syntax', '--input-type=module', '--eval']
  const printed = execFileSync(process.execPath, [...flags, script], { encoding: 'utf8' })
  expect(printed.trim()).toBe('true')
})
