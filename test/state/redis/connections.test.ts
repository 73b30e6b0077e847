import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

const module = (name: string): string =>
  new URL(`../../../src/state/redis/${name}`, import.meta.url).href

/** Runs the lines in a process of its own and returns what they print; `isFast()` tells the form of String.prototype. */
function run(lines: string): string {
  const script = `
    const { restoreFastStrings } = await import('${module('connections.ts')}')
    const isFast = () => %HasFastProperties(String.prototype)
    ${lines}
  `
  const flags = ['--allow-natives-syntax', '--input-type=module', '--eval']
  return execFileSync(process.execPath, [...flags, script], { encoding: 'utf8' }).trim()
}

describe('String.prototype', () => {
  it('is fast again after a class that extends String has made it slow', () => {
    const printed = run(`
      class Slowing extends String {}
      const before = isFast()
      restoreFastStrings()
      console.log(before, isFast())
    `)
    expect(printed).toBe('false true')
  })

  it('is fast where ioredis is loaded, and stays so', () => {
    const printed = run(`
      const { slotOf } = await import('${module('connections.ts')}')
      slotOf('loads it')
      class Another extends String {}
      console.log(isFast())
    `)
    expect(printed).toBe('true')
  })
})
