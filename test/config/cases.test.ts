// Golden cases: each file of cases/ is a configuration, a line of dashes, and the problems expected of it (or "ok", and the warnings).
import { readFileSync, readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../src/clients/load.ts'
import { ConfigError } from '../../src/config/problems.ts'

const folder = new URL('cases/', import.meta.url)
const separator = /^-{10,}\n/m
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
  const names = readdirSync(folder).filter((name) => name.endsWith('.case'))

  it('has cases to run', () => {
    expect(names.length).toBeGreaterThan(50)
  })

  for (const name of names) {
    it(name.replace('.case', '').replaceAll('-', ' '), () => {
      const [text, expected, ...rest] = readFileSync(new URL(name, folder), 'utf8').split(separator)
      expect(rest).toEqual([])
      expect(outcome(text ?? '')).toEqual(expected?.trimEnd().split('\n'))
    })
  }
})
