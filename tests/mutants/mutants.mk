# Do the tests notice a change that breaks something? (docs/reliability.md)

.PHONY: mutants
mutants:
	@$(PYTHON) tests/mutants/mutants.py $(if $(N),-n $(N)) $(if $(ONLY),--only '$(ONLY)') $(if $(SINCE),--since $(SINCE)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(LIMIT),--limit $(LIMIT)) $(if $(AGAIN),--again) $(if $(WORKERS),--workers $(WORKERS))
