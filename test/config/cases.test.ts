// Golden cases: configurations, each with the problems expected of it behind "> " (or "ok", and the warnings).
import { readFileSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { ConfigError } from '../../src/config/problems.ts'

const folder = new URL('cases/', import.meta.url)
const nowMs = Date.UTC(2026, 0, 1)
const env = { HOST: '127.0.0.1', EMPTY: '', YAML: 'reject\nlog: { level: debug }' }

const outcome = (text: string): string[] => {
  try {
    const { warnings } = parseConfigText(text, { file: 'FILE', env, nowMs })
    return ['ok', ...warnings.map((line) => line.slice('FILE:'.length))]
  } catch (error) {
    if (error instanceof ConfigError)
      return error.format().map((line) => line.slice('FILE:'.length))
    throw error
  }
}

describe('a configuration with problems is refused whole, with all of them and their places', () => {
  const cases = readdirSync(folder).flatMap((name) => {
    const text = readFileSync(new URL(name, folder), 'utf8')
    return Array.from(text.matchAll(/(.*?)((?:^> [^\n]*\n)+)/gms), ([, config = '', said = '']) => {
      const expected = said.slice(2, -1).split('\n> ')
      return [`${name}: ${expected[0]}`, config, expected] as const
    })
  })

  it('has cases to run', () => {
    expect(cases.length).toBeGreaterThan(80)
  })

  it.each(cases)('%s', (_, config, expected) => {
    expect(outcome(config)).toEqual(expected)
  })
})
