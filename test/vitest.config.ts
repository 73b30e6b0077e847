import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * What takes longest, in the order in which it begins, so that nothing waits for it alone at the end. Beside the proof of
 * leases, which offers a thousand requests a second, runs first what does no more than wait.
 */
const longest = [
  'conformance/conformance',
  'process/lease-proof',
  'workers/clients',
  'simulation/mutants',
  'process/page',
  'simulation/exploration',
  'process/oldest-node',
  'process/explain',
  'process/reload',
  'process/bans',
  'process/back-off-clients',
  'redis/sentinel',
  'quota/lessee-redis',
  'redis/cluster',
  'quota/lessee-refusals',
  'wire/slow-clients',
  'wire/h2-attacks',
  'bans/back-off',
  'process/redis-topologies',
  'process/refused-store',
  'workers/crashes',
  'process/dist',
  'process/rolling-restart',
  'process/changed-limits',
  'workers/roll',
  'simulation/quota',
  'process/demo',
  'process/shared-quota',
  'process/store-file',
  'process/lifetime',
  'workers/serving',
  'wire/charges',
  'chaos/chaos',
  'process/outage',
  'process/backends',
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
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    // Sources and tests as Node.js itself reads them.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    setupFiles: ['test/support/each-file.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // What is waited for may take its time on a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    pool: 'forks',
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary', 'html'] },
  },
})
