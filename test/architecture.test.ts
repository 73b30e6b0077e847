/** Holds ARCHITECTURE.md and the rules of the house against the tree as it is. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '..')
const files = globSync('src/**/*.ts', { cwd: root }).sort()
const text = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Paths of the project (below src) and package names that a file imports; `types` says whether type-only imports count. */
function imports(file: string, { types }: { types: boolean }): string[] {
  const found: string[] = []
  for (const [, typeOnly, from] of text(file).matchAll(
    /^(?:import|export)\s+(type\s)?(?:[^'"]*?\sfrom\s+)?'([^']+)'/gms,
  )) {
    if (typeOnly !== undefined && !types) continue
    if (from === undefined) continue
    found.push(from.startsWith('.') ? relative(root, join(root, dirname(file), from)) : from)
  }
  return found
}

const packageOf = (name: string): string =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')

describe('the architecture page', () => {
  it('fits one page', () => {
    expect(text('ARCHITECTURE.md').split('\n').length).toBeLessThanOrEqual(90)
  })

  it('names only files and folders that exist', () => {
    const named = [
      ...text('ARCHITECTURE.md').matchAll(/`((?:src|test|config|docs|bench)\/[\w./-]*)`/g),
    ]
    expect(named.length).toBeGreaterThan(15)
    for (const [, path = ''] of named) expect(existsSync(join(root, path)), path).toBe(true)
  })

  it('shows every stage there is', () => {
    const page = text('ARCHITECTURE.md')
    for (const file of globSync('src/stages/*.ts', { cwd: root })) {
      expect(page, file).toContain(file.replace(/^.*\/|\.ts$/g, ''))
    }
  })
})

describe('the layout', () => {
  it('keeps every source file at 250 lines or fewer', () => {
    const long = files.filter((file) => text(file).split('\n').length > 251)
    expect(long).toEqual([])
  })

  it('keeps rules pure: they import rules, types and node:net only', () => {
    for (const file of files.filter((name) => name.startsWith('src/rules/'))) {
      const foreign = imports(file, { types: false }).filter(
        (from) =>
          !from.startsWith('src/rules/') && from !== 'src/rules/refusals.ts' && from !== 'node:net',
      )
      expect(foreign, file).toEqual([])
      expect(text(file).replace(/^\s*(\/\/|\/?\*).*$/gm, ''), file).not.toMatch(
        /Date\.now\(|performance\.now\(|Math\.random\(/,
      )
    }
  })

  it('lets only the pipeline and the composition root import stages', () => {
    const importers = files.filter(
      (file) =>
        !file.startsWith('src/stages/') &&
        imports(file, { types: false }).some((from) => from.startsWith('src/stages/')),
    )
    expect(importers.filter((file) => !/^src\/(pipeline|front-door)\.ts$/.test(file))).toEqual([])
  })

  it('keeps adapters free of stages and of the pipeline', () => {
    for (const file of files.filter((name) => name.startsWith('src/adapters/'))) {
      const upward = imports(file, { types: false }).filter((from) =>
        /^src\/(stages|pipeline|serving|stores|gateway|workers|cli)/.test(from),
      )
      expect(upward, file).toEqual([])
    }
  })

  it('lets the supervisor serve no requests, and a worker look after nobody', () => {
    const reached = (file: string, seen = new Set<string>()): Set<string> => {
      if (seen.has(file) || !files.includes(file)) return seen
      seen.add(file)
      for (const from of imports(file, { types: false })) reached(from, seen)
      return seen
    }
    const supervisor = reached('src/workers/supervisor.ts')
    expect(supervisor.size).toBeGreaterThan(20)
    for (const serving of ['src/gateway/serving.ts', 'src/gateway/front-door.ts', 'src/workers/worker.ts'])
      expect(supervisor, serving).not.toContain(serving)
    const worker = reached('src/workers/worker.ts')
    expect(worker).toContain('src/gateway/serving.ts')
    for (const other of ['src/workers/worker-pool.ts', 'src/admin/server.ts'])
      expect(worker, other).not.toContain(other)
  })

  it('starts child processes in one file', () => {
    const starters = files.filter((file) =>
      imports(file, { types: false }).some((from) => /^node:(child_process|cluster)$/.test(from)),
    )
    expect(starters).toEqual(['src/workers/worker-process.ts'])
  })

  it('imports each outside library in one file', () => {
    const importers = new Map<string, string[]>()
    for (const file of files) {
      for (const from of imports(file, { types: false })) {
        if (from.startsWith('src/') || from.startsWith('node:')) continue
        importers.set(packageOf(from), [...(importers.get(packageOf(from)) ?? []), file])
      }
    }
    // http-proxy-3 is one engine with two doors: requests and upgrades. zod is the language of the schema's parts.
    const several = [...importers].filter(
      ([name, where]) => where.length > 1 && name !== 'http-proxy-3' && name !== 'zod',
    )
    expect(several).toEqual([])
    expect([...importers.keys()].sort()).toEqual(
      Object.keys(
        (JSON.parse(text('package.json')) as { dependencies: object }).dependencies,
      ).sort(),
    )
  })

  it('keeps the catalogue service apart from the gateway', () => {
    for (const file of files.filter((name) => name.startsWith('src/catalogue/'))) {
      const foreign = imports(file, { types: true }).filter(
        (from) => !from.startsWith('src/catalogue/') && !from.startsWith('node:'),
      )
      expect(foreign, file).toEqual([])
    }
  })

  it('reads arguments and environment at the process edge only', () => {
    for (const file of files.filter((name) => name !== 'src/main.ts')) {
      expect(text(file), file).not.toMatch(/process\.(env|argv|exit|on\()/)
    }
  })
})
