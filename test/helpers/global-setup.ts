import { ensureRedisServer } from './redis-server.ts'

/** Runs once before all tests: makes sure a real redis-server is there, or fails with the command that installs it. */
export default function setup(): void {
  ensureRedisServer()
}
