import { DirectEngine } from '../../src/core/forwarding/direct.ts'
import { describeForwarder } from './forwarder.ts'

describeForwarder('direct', DirectEngine)
