import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What takes longest, in the order in which it begins, so that nothing waits for it alone at the end. */
const longest = [
  'process/page',
  'server/workers/crashes',
  'state/redis/cluster',
  'state/redis/sentinel',
  'process/reload',
  'core/quota/lessee-redis',
  'process/signals',
  'process/outage',
].map((name) => `/test/${name}.test.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((name) => moduleId.endsWith(name))
      return at === -1 ? longest.length : at
    }
    return sorted.sort((one, other) => rank(one) - rank(other))
  }
}

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    projects: [
      // Files of one worker share a process and what they import: most of them need less time than the start of one.
      { extends: true, test: { name: 'test', include: ['test/**/*.test.ts'], isolate: false } },
      { extends: true, test: { name: 'proof', include: ['test/**/*.proof.ts'] } },
    ],
    // On two cores: what mostly waits lets the others run meanwhile.
    maxWorkers: 6,
    sequence: { sequencer: LongestFirst },
    // Sources and tests as Node.js itself reads them.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    setupFiles: ['test/support/each-file.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // A test that is red once is a defect, and red where people look. CI prints its name with `retry x1`, and does not let the rest wait for its mend.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    // What is waited for may take its time on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    pool: 'forks',
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
})
