/** Holds the pages against the tree, and against what is published: each link leads somewhere in both. */
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'
import { packages } from '../bench/machine.ts'

const root = join(import.meta.dirname, '..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const packed = (): string[] => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const text = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
  const [tarball] = Object.values(JSON.parse(text) as object) as {
    files: { path: string }[]
  }[]
  return tarball?.files.map(({ path }) => path) ?? []
}

/** Paths of the project that a page links to or shows. */
const linked = (page: string): string[] =>
  Array.from(read(page).matchAll(/\]\(([^)#\s]+)[^)]*\)/g), ([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => normalize(join(dirname(page), target)))

describe('the published package', () => {
  const files = packed()
  const pages = files.filter((file) => file.endsWith('.md'))

  it('has the pages', () => {
    for (const page of ['README.md', 'SECURITY.md', 'docs/operations.md', 'docs/quota.md'])
      expect(pages).toContain(page)
  })

  it.each(pages)('has everything that %s links to', (page) => {
    for (const target of linked(page)) expect(files, target).toContain(target)
  })
})

describe('the pages', () => {
  const inDocs = globSync('docs/*.md', { cwd: root })
  const pages = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', ...inDocs]

  it.each(pages)('name only files that exist: %s', (page) => {
    const named = Array.from(
      read(page).matchAll(/`((?:src|test|config|docs|bench)\/[\w./-]*)`/g),
      ([, path = '']) => path,
    )
    for (const path of named) expect(existsSync(join(root, path)), path).toBe(true)
  })

  it('are all in the table of contents of the book', () => {
    for (const page of inDocs)
      if (page !== 'docs/README.md') expect(linked('docs/README.md')).toContain(page)
  })

  it('explain every alert, and no other', () => {
    const alerts = Array.from(
      read('config/prometheus/alerts.yml').matchAll(/- alert: (\w+)/g),
      ([, name = '']) => name,
    )
    const explained = Array.from(
      read('docs/operations.md').matchAll(/^\| `(Tollgate\w+)`/gm),
      ([, name = '']) => name,
    )
    expect(explained).toEqual(alerts)
  })
})

describe('the benchmark', () => {
  it('states versions of packages alone that it or the gateway installs', () => {
    const installed = ['package.json', 'bench/package.json'].flatMap((file) => {
      const { dependencies, devDependencies } = JSON.parse(read(file)) as Record<string, object>
      return Object.keys({ ...dependencies, ...devDependencies })
    })
    expect(installed).toEqual(expect.arrayContaining(packages))
  })
})
